package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

func TestMain(m *testing.M) {
	subprocess.Main(m, map[string]func(){
		"bellwether": func() {
			if len(os.Args) == 2 && os.Args[1] == "unkillable" { // what it starts is the same program
				unkillable()
			}
			main()
		},
	})
}

// unkillable is a program of root's that its user has started.
func unkillable() {
	if err := unix.Setresuid(0, 0, 0); err != nil {
		panic(err)
	}
	fmt.Println("unkillable", os.Getpid())
	<-time.After(time.Minute)
	os.Exit(0)
}
