// Command dashboards writes the dashboards of metrics/dashboards, for Grafana. Its tests run the
// collectors of package metrics, and ask Prometheus' engine every query of a dashboard and every
// alert of metrics/alerts.yaml. It is a module of its own for that engine.
//
//	go run -C internal/dashboards .
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// directory is where the dashboards are.
const directory = "../../metrics/dashboards"

func main() {
	for _, b := range boards() {
		text, err := b.json()
		if err == nil {
			err = os.WriteFile(filepath.Join(directory, b.name+".json"), text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "dashboards: %s: %v\n", b.name, err)
			os.Exit(1)
		}
	}
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
