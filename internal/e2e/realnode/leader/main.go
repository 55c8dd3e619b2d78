// Command leader is the daemon of examples/leaderforlife, for its manifests. While it leads it says
// so every few milliseconds. Signals make it misbehave: with SIGUSR1 it takes all the memory that it
// gets, with SIGHUP it fills its log, with SIGUSR2 it ignores SIGTERM from then on.
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

const (
	beat     = 5 * time.Millisecond
	megabyte = 1 << 20
)

func main() {
	logs := zap.NewProductionConfig()
	logs.OutputPaths, logs.Sampling = []string{"stdout"}, nil
	log := zap.Must(logs.Build())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP)
	go misbehave(signals, log, stop)
	if err := leader.Become(ctx, "example-leader", leader.WithLogger(log)); err != nil {
		log.Fatal("not the leader", zap.Error(err))
	}
	log.Info("working")
	for tick := time.NewTicker(beat); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick.C:
			log.Info("beat")
		}
	}
}

func misbehave(signals <-chan os.Signal, log *zap.Logger, stop func()) {
	var stubborn atomic.Bool
	for received := range signals {
		switch received {
		case syscall.SIGTERM:
			if log.Info("SIGTERM"); !stubborn.Load() {
				stop()
			}
		case syscall.SIGUSR2:
			stubborn.Store(true)
			log.Info("SIGTERM is ignored from now on")
		case syscall.SIGHUP:
			for range 9 * megabyte / 1000 { // the kubelet rotates logs of 10
				log.Info(strings.Repeat("x", 1000))
			}
		case syscall.SIGUSR1:
			for size := megabyte; ; size *= 2 {
				block := make([]byte, size)
				for i := 0; i < size; i += os.Getpagesize() {
					block[i] = 1
				}
			}
		}
	}
}
