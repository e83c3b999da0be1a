//go:build tools

// Package tools names the command this module pins.
package tools

import _ "github.com/nats-io/nats-server/v2"
