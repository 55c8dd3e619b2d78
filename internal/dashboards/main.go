// Command dashboards writes the dashboards of metrics/dashboards, for Grafana. With -pictures it runs
// programs for a minute, and draws what the dashboards show of them. Its tests run the collectors
// of package metrics, and such programs, and ask Prometheus' engine every query of a dashboard and
// every alert of metrics/alerts.yaml. It is a module of its own for that engine.
//
//	go run -C internal/dashboards .
//	go run -C internal/dashboards . -pictures ../../docs
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// directory is where the dashboards are.
const directory = "../../metrics/dashboards"

func main() {
	pictures := flag.String("pictures", "", "directory for pictures of the dashboards; empty: write the dashboards")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := write
	if *pictures != "" {
		do = func() error { return draw(ctx, *pictures) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// write writes the dashboards.
func write() error {
	for _, b := range boards() {
		text, err := b.json()
		if err == nil {
			err = os.WriteFile(filepath.Join(directory, b.name+".json"), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// draw runs programs, and draws the dashboards with their data.
func draw(ctx context.Context, to string) (failed error) {
	r, err := record(ctx)
	if err != nil {
		return err
	}
	engine := newEngine()
	defer func() { failed = errors.Join(failed, engine.Close()) }()
	for _, b := range boards() {
		picture, err := r.picture(ctx, engine, b)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, b.name+".svg"), picture, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

func boards() []board { return []board{elections(), rings(), fencing()} }

func (b board) json() ([]byte, error) {
	built, err := b.build()
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(built, "", "  ")
	return append(text, '\n'), err
}
