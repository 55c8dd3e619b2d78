package main

import "fmt"

// problems is what is missing, one line each.
type problems []error

func (p *problems) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }
