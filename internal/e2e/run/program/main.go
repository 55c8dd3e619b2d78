// Command program is what bellwether run runs in tests. It says on its output what it does.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	name := flag.String("name", "", "of the replica")
	stubborn := flag.Bool("stubborn", false, "ignore SIGTERM, and have a child in another session that also does")
	after := flag.Duration("exit-after", time.Hour, "how long to run")
	code := flag.Int("exit-code", 0, "what to exit with")
	leave := flag.Bool("leave", false, "leave a child behind")
	child := flag.Bool("child", false, "be that child")
	flag.Parse()
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	if !*child {
		fmt.Println("begin", *name, os.Getenv("BELLWETHER_TERM"), os.Getenv("BELLWETHER_TOKEN"),
			os.Getenv("BELLWETHER_IDENTITY"), os.Getenv("BELLWETHER_LEASE"), os.Getenv("BELLWETHER_LEASE_UID"))
	}
	if (*stubborn || *leave) && !*child {
		c := exec.Command("/proc/self/exe", "-name", *name, "-child", "-stubborn")
		c.Stdout, c.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	end, tick := time.After(*after), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Println("act", *name, time.Now().UnixNano())
		case <-terminate:
			fmt.Println("SIGTERM", *name, time.Now().UnixNano())
			if !*stubborn {
				os.Exit(*code)
			}
		case <-end:
			os.Exit(*code)
		}
	}
}
