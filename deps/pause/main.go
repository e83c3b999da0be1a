// Command pause holds the namespaces of a pod: it waits to be told to end, and reaps what is left to it meanwhile.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Asked for before anything else: a signal that comes early must not be lost.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	reap()
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap takes note of every child that has ended. One signal may stand for many of them.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
