package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// part is a target of the Makefile.
type part struct {
	name   string
	always bool          // every change needs it, whatever the budget
	takes  time.Duration // with warm caches, on 2 cores of 2025
}

var parts = []part{
	{"lint", true, 90 * time.Second},
	{"race", true, 4 * time.Minute},
	{"e2e", true, 6 * time.Minute},
	{"e2e-race", false, 10 * time.Minute},
	{"simulations", false, 6 * time.Minute},
	{"realnodes", false, 7 * time.Minute},
	{"mutations", false, 6 * time.Minute},
	{"agents", false, 6 * time.Minute},
	{"foreign", false, 9 * time.Minute},
	{"compat", false, time.Minute},
	{"heavy", false, 2 * time.Minute},
	{"upgrades", false, 3 * time.Minute},
	{"deep", false, 12 * time.Minute},
}

// order returns the parts that always run, and then the others, where each commit begins with the next one.
func order(parts []part, commits int) []part {
	var first, rest []part
	for _, p := range parts {
		if p.always {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(rest) == 0 {
		return first
	}
	begin := commits % len(rest)
	return slices.Concat(first, rest[begin:], rest[:begin])
}

// verification is one run of make verify.
type verification struct {
	budget time.Duration // 0: unlimited
	run    func(ctx context.Context, target string, slow bool) error
	now    func() time.Time
	out    io.Writer

	begun           time.Time
	took, should    time.Duration // of the parts so far, and what they were expected to take
	results         []string
	failed, omitted []string
}

// verify runs the parts in this order. It returns an error that names those that failed.
func (v *verification) verify(ctx context.Context, parts []part) error {
	v.begun = v.now()
	for _, p := range parts {
		if ctx.Err() != nil {
			v.omit(p, "interrupted")
			continue
		}
		if expected := v.expected(p); v.budget > 0 && !p.always && expected > v.left() {
			v.omit(p, fmt.Sprintf("%s left of %s, and it takes some %s here", brief(max(0, v.left())), v.budget,
				brief(expected)))
			continue
		}
		v.one(ctx, p)
	}
	v.say("== make verify: %s\n%s\n", brief(v.now().Sub(v.begun)), strings.Join(v.results, "\n"))
	if len(v.omitted) > 0 {
		v.say("NOT RUN: %s. make verify without BUDGET runs all parts.\n", strings.Join(v.omitted, ", "))
	}
	if len(v.failed) > 0 {
		return errors.New("failed: " + strings.Join(v.failed, ", "))
	}
	return ctx.Err()
}

func (v *verification) one(ctx context.Context, p part) {
	v.say("== make %s: takes some %s here, begun after %s\n", p.name, brief(v.expected(p)),
		brief(v.now().Sub(v.begun)))
	begun := v.now()
	err := v.run(ctx, p.name, v.slow())
	took := v.now().Sub(begun)
	v.took, v.should = v.took+took, v.should+p.takes
	result := "passed"
	if err != nil {
		result = fmt.Sprintf("FAILED: %v", err)
		v.failed = append(v.failed, p.name)
	}
	v.results = append(v.results, fmt.Sprintf("  %-12s %8s  %s", p.name, brief(took), result))
}

func (v *verification) omit(p part, why string) {
	v.omitted = append(v.omitted, p.name)
	v.results = append(v.results, fmt.Sprintf("  %-12s %8s  not run: %s", p.name, "-", why))
}

func (v *verification) say(format string, args ...any) { _, _ = fmt.Fprintf(v.out, format, args...) }

// expected is how long a part takes on this machine, as far as the parts before it show.
func (v *verification) expected(p part) time.Duration {
	if v.should == 0 {
		return p.takes
	}
	return time.Duration(float64(p.takes) * float64(v.took) / float64(v.should))
}

// slow reports whether this machine needs more than twice the expected time. If as many tests ran there
// as elsewhere, replicas whose Leases last seconds would lose them.
func (v *verification) slow() bool { return v.took > 2*v.should }

func (v *verification) left() time.Duration { return v.budget - v.now().Sub(v.begun) }

func brief(d time.Duration) time.Duration { return d.Round(time.Second) }
