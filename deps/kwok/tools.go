//go:build tools

// Package tools names the commands this module pins.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
