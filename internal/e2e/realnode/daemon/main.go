// Command daemon knows nothing of elections. It writes what it does, in the form of the examples.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for step := 1; ; step++ {
		fmt.Printf(`{"msg":"working","ts":%f,"step":%d,"token":%q}`+"\n", float64(time.Now().UnixMicro())/1e6, step,
			os.Getenv("BELLWETHER_TOKEN"))
		select {
		case <-tick.C:
		case <-terminate:
			return
		}
	}
}
