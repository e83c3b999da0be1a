//go:build tools

// Package tools names the command this module pins.
package tools

import _ "go.etcd.io/etcd/server/v3"
