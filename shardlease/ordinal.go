package shardlease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// defaultReturnWithin is the default of ReturnWithin for claimed names.
const defaultReturnWithin = 30 * time.Second

// An ordinal has up to 5 digits. The longest name of a ring leaves room for them.
const (
	ordinalDigits = 5
	maxClaimRing  = validation.LabelValueMaxLength - len("-") - ordinalDigits
)

// ClaimOrdinal is [New] for Pods whose names do not outlive a rollout, such as those of a
// Deployment. The shard takes the first free name of <ring>-0, <ring>-1, …, so that a new Pod
// continues with the name and the objects of a Pod that it replaces. A rollout that adds one Pod at
// a time moves only the objects of the first new Pod and of the last old one.
//
// It takes, in this order:
//
//   - the name of an earlier process of this Pod ([Config].PodUID; Linux only)
//   - the name of a shard that has released its Lease and is expected back ([Config].ReturnWithin)
//   - after a wait of at most ReturnWithin, the name of a shard that is stopping and has not
//     released its Lease yet
//   - the lowest name whose Lease was released or does not exist
//
// It never takes a Lease that was not released, however old, because only a sharder does. If
// several Pods claim one name, one of them gets it.
//
// config.Identity must be empty, and config.Ring at most 57 characters long, because ordinals have
// up to 5 digits. Set PodUID; without it, a restarted container that has not released its Lease
// takes another name, and its objects move. The default of ReturnWithin is 30 s, and the objects of
// a shard that is not replaced wait that long. The Lease has the hostname in an annotation.
//
// ClaimOrdinal waits while the API server does not answer. It returns an error when ctx has ended,
// or if the API server has refused a required request, or the credentials of this process, for a whole
// LeaseDuration. Its client also needs the verb list on Leases.
//
// The Lease is held when ClaimOrdinal returns. Call [Lease.Run] within LeaseDuration - Margin, 12 s
// by default; after that, the lease is lost, and OnLost is called. After Run has returned, another
// Pod may have the name, so claim a name again.
func ClaimOrdinal(ctx context.Context, client kubernetes.Interface, config Config) (*Lease, error) {
	if client == nil {
		return nil, errors.New("shardlease: client: must not be nil")
	}
	if config.Identity != "" {
		return nil, fmt.Errorf("shardlease: Identity: must be empty, because a name is claimed (got %q)",
			config.Identity)
	}
	if len(config.Ring) > maxClaimRing {
		return nil, fmt.Errorf("shardlease: Ring: must be at most %d characters, because a name is claimed: "+
			"<ring>-<ordinal>, with up to %d digits, fits in %d (got %q)",
			maxClaimRing, ordinalDigits, validation.LabelValueMaxLength, config.Ring)
	}
	var err error
	if config.pod, err = os.Hostname(); err != nil {
		return nil, fmt.Errorf("shardlease: no hostname to be written into the Lease: %w", err)
	}
	if config.ReturnWithin == 0 {
		config.ReturnWithin = defaultReturnWithin
	}
	c := claimant{client: client, given: config, foreign: map[string]bool{}, denied: map[string]clock.Reading{}}
	first, err := New(client, c.named(ordinalName(config.Ring, 0)))
	if err != nil {
		return nil, err
	}
	first.candidate.Discard()
	c.config, c.given.killer = first.config, first.candidate.KillTimer()
	c.failures, c.contact = kube.NewFailures(c.config.Logger, c.config.Clock), first.candidate.Contact
	defer c.contact.End()
	return c.claim(ctx)
}

// claimant looks for a name.
type claimant struct {
	client  kubernetes.Interface
	given   Config                   // without a name
	config  Config                   // with the first one, and with defaults
	foreign map[string]bool          // names of Leases that are not of the ring
	denied  map[string]clock.Reading // when the API server refused to write them, as for a quota

	refused  clock.Reading // since when requests have been refused; zero if they are not
	failures *kube.Failures
	contact  *kube.Contact
}

// named returns the configuration with a name.
func (c *claimant) named(name string) Config {
	config := c.given
	config.Identity = name
	return config
}

func ordinalName(ring string, ordinal int) string { return ring + "-" + strconv.Itoa(ordinal) }

// claim tries until it has a name.
func (c *claimant) claim(ctx context.Context) (*Lease, error) {
	pause := c.backoff()
	var leavingSince clock.Reading
	for ctx.Err() == nil {
		now := c.config.Clock.Now()
		leases, err := c.list(ctx)
		var l *Lease
		if err == nil {
			o := c.offer(leases, now.Wall)
			if o.leaving && leavingSince == (clock.Reading{}) {
				leavingSince = now
			}
			if o.leaving && now.SinceAtLeast(leavingSince) < c.config.ReturnWithin {
				o.lowest = ""
			}
			l, err = c.takeOneOf(ctx, o)
		}
		c.note(ctx, err)
		switch {
		case l != nil:
			l.config.Logger.Info("name claimed", zap.String("pod", c.given.pod))
			return l, nil
		case err == nil:
			c.refused, pause = clock.Reading{}, c.backoff()
		case !errors.As(err, new(*kube.RequestError)):
			return nil, err
		case !kube.AccessDenied(err): // the refusals before, if any, were not for good
			c.refused = clock.Reading{}
		case c.refused == (clock.Reading{}):
			c.refused = now
			if kube.RoleMissing(err) {
				c.sayMissingRights(ctx)
			}
		case now.SinceAtLeast(c.refused) >= c.config.LeaseDuration:
			return nil, fmt.Errorf("shardlease: claim a name: %w", err)
		}
		clock.SleepBy(ctx, c.config.Clock, pause.Step())
	}
	return nil, fmt.Errorf("shardlease: claim a name: %w", context.Cause(ctx))
}

// note notes how an attempt has ended, unless ctx may have ended it.
func (c *claimant) note(ctx context.Context, err error) {
	if ctx.Err() == nil {
		c.contact.Note(err)
	}
}

// sayMissingRights logs all missing rights when the first request is refused.
func (c *claimant) sayMissingRights(ctx context.Context) {
	ctx, cancel := clock.WithTimeout(ctx, c.config.Clock, c.config.timing().RenewInterval())
	defer cancel()
	rights := kube.RightsOn(coordinationv1.Resource("leases"), c.config.Namespace, "",
		"list", "create", "get", "update", "watch")
	kube.SayMissingRights(ctx, c.client, rights, c.config.Logger)
}

// backoff returns the pauses between attempts.
func (c *claimant) backoff() wait.Backoff {
	return wait.Backoff{
		Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.5, Steps: math.MaxInt32,
		Cap: 2 * time.Second,
	}
}

// list returns the Leases of the ring.
func (c *claimant) list(ctx context.Context) ([]coordinationv1.Lease, error) {
	bounded, cancel := clock.WithTimeout(ctx, c.config.Clock, c.config.timing().RenewInterval())
	defer cancel()
	list, err := c.client.CoordinationV1().Leases(c.config.Namespace).List(bounded, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(labels.Set{RingLabel: c.config.Ring}).String(),
	})
	if err = kube.Versioned(list, err); err != nil {
		err = leasehold.RequestError("list",
			types.NamespacedName{Namespace: c.config.Namespace, Name: c.config.Ring + "-*"}, err)
	}
	if ctx.Err() == nil {
		c.failures.Note("list", err, "a name cannot be claimed yet, retrying", "")
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// offer lists the names that can be claimed.
type offer struct {
	first   []string // to be tried in this order
	leaving bool     // another name will soon be free
	lowest  string   // to be tried last
}

// offer returns the names that can be claimed. It compares now with times of other machines, but
// only to decide what to try first.
func (c *claimant) offer(leases []coordinationv1.Lease, now time.Time) (o offer) {
	type returning struct {
		name     string
		released time.Time
	}
	var expected []returning
	var free []int
	exists := map[string]bool{}
	for i := range leases {
		l := &leases[i]
		ordinal, ok := ordinalOf(l.Name, c.config.Ring)
		if !ok || l.Labels[RingLabel] != c.config.Ring { // fakes do not select
			continue
		}
		name := ordinalName(c.config.Ring, ordinal)
		exists[name] = true
		r := lease.RecordOf(l)
		switch within := shardrecord.ReturnWithin(l.Annotations[shardrecord.ReturnAnnotation], MaxLeaseDuration); {
		case c.named(name).reclaims(r, c.config.PodUID):
			o.first = append(o.first, name)
		case !r.Released():
			o.leaving = o.leaving || r.Holder() == name && l.Annotations[shardrecord.LeavingAnnotation] != ""
		case l.Spec.RenewTime != nil && now.Sub(l.Spec.RenewTime.Time).Abs() < within:
			expected = append(expected, returning{name, l.Spec.RenewTime.Time})
			free = append(free, ordinal)
		default:
			free = append(free, ordinal)
		}
	}
	slices.SortFunc(expected, func(a, b returning) int { // first the one whose time ends first
		return cmp.Or(a.released.Compare(b.released), strings.Compare(a.name, b.name))
	})
	for _, e := range expected {
		o.first = append(o.first, e.name)
	}
	fresh := 0 // the first that must be made
	for exists[ordinalName(c.config.Ring, fresh)] || c.foreign[ordinalName(c.config.Ring, fresh)] {
		fresh++
	}
	free = append(free, fresh)
	slices.Sort(free)
	for _, ordinal := range free {
		if name := ordinalName(c.config.Ring, ordinal); o.lowest == "" && !c.foreign[name] && !c.deniedLately(name) {
			o.lowest = name
		}
	}
	return o
}

// ordinalOf returns the ordinal in a name.
func ordinalOf(name, ring string) (ordinal int, ok bool) {
	digits, ok := strings.CutPrefix(name, ring+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.Atoi(digits)
	return ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == digits && len(digits) <= ordinalDigits
}

// takeOneOf takes the first name that is still free.
func (c *claimant) takeOneOf(ctx context.Context, o offer) (*Lease, error) {
	for _, name := range append(o.first, o.lowest) {
		if name == "" || c.deniedLately(name) {
			continue
		}
		if l, err := c.take(ctx, name); l != nil || err != nil {
			return l, err
		}
	}
	return nil, nil
}

func (c *claimant) deniedLately(name string) bool {
	at, denied := c.denied[name]
	return denied && c.config.Clock.Now().SinceAtLeast(at) < c.config.LeaseDuration
}

// take returns nil if another process has the name.
func (c *claimant) take(ctx context.Context, name string) (*Lease, error) {
	l, err := New(c.client, c.named(name))
	if err != nil {
		return nil, err
	}
	l.claimName()
	pause := c.backoff()
	for {
		l.claimed, err = l.candidate.Try(ctx)
		c.note(ctx, err)
		switch {
		case l.claimed != nil:
			return l, nil
		case isForeign(err):
			c.foreign[name] = true
			err = nil
			fallthrough
		case err == nil, kube.AccessDenied(err), ctx.Err() != nil:
			l.giveUp()
			return nil, err
		case isDenied(err): // another name may be free before this one
			c.denied[name] = c.config.Clock.Now()
			l.giveUp()
			return nil, nil
		}
		clock.SleepBy(ctx, c.config.Clock, pause.Step()) // then read whether the request has taken the name
	}
}

// giveUp cleans up after a claim that has failed.
func (l *Lease) giveUp() {
	l.yieldName()
	l.candidate.Discard()
}

// isDenied reports whether the API server, or a policy or webhook, has refused to write, so that
// nothing was written. A webhook chooses the code; the default is 400.
func isDenied(err error) bool {
	var status apierrors.APIStatus
	if !kube.Stated(err) || !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusTooManyRequests:
		return false
	default:
		return 400 <= code && code < 500
	}
}

func isForeign(err error) bool {
	return errors.Is(err, ErrForeign) || errors.Is(err, lease.ErrCoordinated) || errors.Is(err, lease.ErrForLife)
}
