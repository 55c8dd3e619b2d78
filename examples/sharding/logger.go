package main

import "go.uber.org/zap"

// newLogger returns a logger that writes every line as JSON to standard output, because a journal
// would lose lines with sampling, zap's default.
func newLogger() (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.OutputPaths, config.Sampling = []string{"stdout"}, nil
	return config.Build()
}
