//go:build tools

// Package tools names the commands this module pins.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
