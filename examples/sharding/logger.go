package main

import "go.uber.org/zap"

// newLogger returns a logger that writes JSON to standard output, every line of it: zap would leave out some of a journal.
func newLogger() (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.OutputPaths, config.Sampling = []string{"stdout"}, nil
	return config.Build()
}
