//go:build tools

// Package tools names the commands this module pins.
package tools

import (
	_ "github.com/coredns/coredns"
)
