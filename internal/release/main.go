package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

func main() {
	next := flag.String("version", "", "the version to release, such as v0.2.0")
	apidiff := flag.String("apidiff", "", "the program apidiff")
	flag.Parse()
	if err := check(context.Background(), os.Stdout, ".", *next, *apidiff); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
