//go:build !linux

package main

import (
	"context"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

func onNodes(context.Context, string) error { return realnode.Missing() }
