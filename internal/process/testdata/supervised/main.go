// Command supervised is its own supervisor.
package main

import (
	"fmt"
	"os"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

func main() {
	if os.Getenv("SUPERVISED") == "" {
		os.Setenv("SUPERVISED", "yes")
		os.Exit(process.Supervise(process.Supervision{Ended: func(code int) { fmt.Println("ended:", code) }}))
	}
	os.Exit(3)
}
