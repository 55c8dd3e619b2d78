package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// effects are what a fence does to the world: writes to the API server, from that of its record on,
// and commands to devices.
type effects struct {
	last   int    // at which the process dies; 0: at none
	name   string // of that at which it dies
	before bool
	file   *os.File // has a byte for each of them: a restarted process counts on; nil: it is not

	mu    sync.Mutex
	count int // 0: no fence yet
}

func newEffects(death, path string) (*effects, error) {
	number, when, _ := strings.Cut(death, ",")
	e := &effects{before: when == "before"}
	var err error
	if e.last, err = strconv.Atoi(number); err != nil {
		e.name = number
	}
	if path == "" {
		return e, nil
	}
	if e.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	info, err := e.file.Stat()
	if err != nil {
		return nil, err
	}
	e.count = int(info.Size())
	return e, nil
}

// begin counts an effect, and returns what has to be called when it has happened.
func (e *effects) begin(what string) (end func()) {
	e.mu.Lock()
	e.count++
	number := e.count
	if e.file != nil {
		if _, err := e.file.WriteString("."); err != nil {
			panic(err)
		}
	}
	fmt.Printf("effect %d: %s\n", number, what)
	e.mu.Unlock()
	last := number == e.last || what == e.name
	if last && e.before {
		die()
	}
	return func() {
		if last {
			die()
		}
	}
}

func (e *effects) begun() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count > 0
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// observed is a client whose writes are counted, and which sees one record only, if one is named.
type observed struct {
	*effects
	record string
	next   http.RoundTripper
}

func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	records := strings.HasSuffix(r.URL.Path, "/nodefences")
	switch {
	case r.Method == http.MethodGet && records && o.record != "":
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("fieldSelector", "metadata.name="+o.record)
		r.URL.RawQuery = query.Encode()
		return o.next.RoundTrip(r)
	case r.Method == http.MethodGet, !records && !o.begun(),
		strings.Contains(r.URL.Path, "/apis/events.k8s.io/"),
		strings.Contains(r.URL.Path, "/apis/authorization.k8s.io/"): // asks, and stores nothing
		return o.next.RoundTrip(r)
	}
	defer o.begin(r.Method + " " + r.URL.Path)()
	return o.next.RoundTrip(r)
}
