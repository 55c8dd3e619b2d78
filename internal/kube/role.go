package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

const (
	// reviewTimeout bounds the requests of one review.
	reviewTimeout = 10 * time.Second
	// shortestReview and longestReview bound the pauses between reviews. A program of many replicas
	// must not load the API server with reviews because a right is missing.
	shortestReview = 5 * time.Second
	longestReview  = time.Minute
)

// Role collects the rights that all parts of a program need. When a request is refused, it reviews
// all of them, and logs those that are missing in one line. It logs them again when they change.
type Role struct {
	log     *zap.Logger
	refused chan struct{} // of capacity 1

	reviewing sync.Mutex // held during a review

	mu      sync.Mutex
	needs   []need  // guarded by mu
	missing []Right // guarded by mu: as of the last review
}

// need is what one part of the program needs of a client's user.
type need struct {
	client kubernetes.Interface
	rights func() []Right
}

// NewRole returns a role that needs nothing yet.
func NewRole(log *zap.Logger) *Role { return &Role{log: log, refused: make(chan struct{}, 1)} }

// Needs adds the rights that a part of the program needs, unless they were added before. It reports
// whether it has.
func (r *Role) Needs(client kubernetes.Interface, rights func() []Right) (added bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.needs, func(n need) bool {
		return n.client == client && slices.Equal(n.rights(), rights())
	}) {
		return false
	}
	r.needs = append(r.needs, need{client, rights})
	return true
}

type roleKey struct{}

// RoleOf returns the role of the program that a context belongs to, or nil.
func RoleOf(ctx context.Context) *Role {
	role, _ := ctx.Value(roleKey{}).(*Role)
	return role
}

// Begin starts the reviews and returns the context of the program. They end with ctx or when end is
// called, which waits for that.
func (r *Role) Begin(ctx context.Context) (program context.Context, end func()) {
	reviews, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.run(reviews) })
	return context.WithValue(ctx, roleKey{}, r), func() {
		cancel()
		running.Wait()
	}
}

// run reviews the rights after refusals, and from time to time while some are missing.
func (r *Role) run(ctx context.Context) {
	pause := shortestReview
	for {
		if len(r.known()) == 0 {
			select {
			case <-r.refused:
			case <-ctx.Done():
				return
			}
		}
		if r.Review(ctx) {
			pause = shortestReview
		}
		if !clock.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, longestReview)
	}
}

// Refused takes the error of a request, or several joined ones, and causes a review of the rights
// if one was missing. It reports whether a log line has already named missing rights on these
// resources, so that the caller need not log them again. A nil role logs nothing.
func (r *Role) Refused(err error) (said bool) {
	if r == nil {
		return false
	}
	missing, said := r.judge(err)
	if missing {
		r.Suspect()
	}
	return said
}

// Explain is Refused, but if nothing is logged yet, it reviews and logs before it returns.
func (r *Role) Explain(ctx context.Context, err error) (said bool) {
	if r == nil {
		return false
	}
	missing, said := r.judge(err)
	if missing && !said {
		r.Review(ctx)
		_, said = r.judge(err)
	}
	return said
}

// judge reports whether err, or an error joined in it, is about a missing right, and whether it is
// about nothing else and the last review has logged it.
func (r *Role) judge(err error) (missing, said bool) {
	for wrapped := err; wrapped != nil; wrapped = errors.Unwrap(wrapped) {
		joined, ok := wrapped.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		said = true
		for _, part := range joined.Unwrap() {
			partMissing, partSaid := r.judge(part)
			missing, said = missing || partMissing, said && partSaid
		}
		return missing, said
	}
	if err == nil || !RoleMissing(err) {
		return false, false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return true, false
	}
	about := status.Status().Details // of a subresource it names the resource
	return true, slices.ContainsFunc(r.known(), func(m Right) bool {
		resource, _, _ := strings.Cut(m.Resource.Resource, "/")
		return m.Resource.Group == about.Group && resource == about.Kind
	})
}

// Suspect causes a review soon. A nil role has no rights.
func (r *Role) Suspect() {
	if r == nil {
		return
	}
	select {
	case r.refused <- struct{}{}:
	default:
	}
}

// known returns the rights that were missing in the last review.
func (r *Role) known() []Right {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missing
}

// Review asks which rights are missing, logs them if they have changed, and reports whether they
// have. If the API server cannot be asked, it changes nothing. It takes the context of the program.
func (r *Role) Review(program context.Context) (changed bool) {
	r.reviewing.Lock()
	defer r.reviewing.Unlock()
	ctx, cancel := context.WithTimeout(program, reviewTimeout)
	defer cancel()
	r.mu.Lock()
	needs, before := slices.Clone(r.needs), Grants(r.missing)
	r.mu.Unlock()
	var missing []Right
	for _, n := range needs {
		of, err := MissingRights(ctx, n.client, n.rights())
		if err != nil {
			if program.Err() == nil {
				r.log.Debug("cannot ask which rights are missing", zap.Error(err))
			}
			return false
		}
		missing = append(missing, of...)
	}
	r.mu.Lock()
	r.missing = missing
	r.mu.Unlock()
	switch now := Grants(missing); now {
	case before:
		return false
	case "":
		r.log.Info("no right is missing any more")
	default:
		r.log.Warn("rights are missing: grant all of them", zap.String("grant", now))
	}
	return true
}
