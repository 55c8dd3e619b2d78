package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

var (
	// ErrNotRunning is returned if Run is not running in this process, or has lost the leadership.
	ErrNotRunning = errors.New("fencing: only the leader commissions, while it runs")
	// ErrRefused is returned with the reason why a node cannot be commissioned now. Nothing was
	// changed.
	ErrRefused = errors.New("fencing: the node is not commissioned")
	// ErrCommissionFailed is returned with the reason why a commission ended without a proof. The
	// error names the devices that could not be switched on again.
	ErrCommissionFailed = errors.New("fencing: the commission has failed")

	errTaken = errors.New("it was asked for, and begun, before")
)

// Commission proves that the power devices that are configured for a node belong to it. The node
// must work, and an admin must have cordoned and drained it. Once for each level of
// power_management, Commission switches the machine off, waits for the node to go down, switches
// the machine on, and waits for the node to come back with another boot ID. That takes some
// minutes. Commission then returns everything that is proved about the node. The proof is stored at
// the Node, and is valid while the configuration of the devices is unchanged.
//
// Run must be running in this process. It executes the commission as a NodeFence, which counts as a
// fence: with MaxConcurrent 1, no other machine loses its power meanwhile, and the next controller
// continues after a crash. The commission also continues when ctx ends. To stop it, annotate the
// NodeFence as for a fence.
//
// The error matches one of these:
//
//   - ErrRefused: the node does not exist, does not work, is not cordoned, is not drained or has a
//     fence; its configuration or devices have errors; or the policy does not allow one more
//     machine to be off.
//   - ErrCommissionFailed: a device did not obey, or the node did not go down or did not come back
//     with another boot ID.
//   - ErrNotRunning.
func (c *Controller) Commission(ctx context.Context, node string) (Commissioned, error) {
	t := c.leading()
	if t == nil {
		return Commissioned{}, ErrNotRunning
	}
	asked, err := t.commissions.ask(ctx, node, nil)
	if err != nil {
		return Commissioned{}, err
	}
	for {
		ended, err := t.commissions.ended(node, asked)
		if err != nil {
			return Commissioned{}, err
		}
		if ended {
			n, err := c.client.node(ctx, node)
			if err != nil {
				return Commissioned{}, err
			}
			return proofOf(n), nil
		}
		if !clock.Sleep(ctx, tick) {
			return Commissioned{}, ctx.Err()
		}
		if c.leading() != t {
			err := fmt.Errorf("%w: the next one continues the commission of node %s", ErrNotRunning, node)
			return Commissioned{}, err
		}
	}
}

// commissions begins commissions.
type commissions struct {
	config *Config
	client client
	state  *clusterState
	plans  *planCache
	tasks  *tasks
	began  time.Time // the term

	mu       sync.Mutex
	requests map[string]*commissionRequest // by node
}

// ask begins a commission unless something prevents it, and returns the value of the request.
// annotation is the value of the node's annotation, or nil if the request is new.
func (c *commissions) ask(ctx context.Context, node string, annotation *string) (string, error) {
	n, err := c.client.node(ctx, node)
	if kube.Absent(err, corev1.Resource("nodes"), node) {
		return "", fmt.Errorf("%w: node %q not found", ErrRefused, node)
	}
	if err != nil {
		return "", err
	}
	requests, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	record, err := c.client.fence(requests, node)
	if err != nil && !absent(err, node) {
		return "", err
	}
	incident := int64(1)
	if record != nil {
		incident = record.Status.Incident + 1
	}
	asked := fmt.Sprintf("%s/%d", n.Status.NodeInfo.BootID, incident)
	if annotation != nil {
		if value, ok := n.Annotations[v1alpha1.AnnotationCommission]; !ok || value != *annotation {
			return "", errTaken
		}
		asked = *annotation
	}
	if err := c.refusal(ctx, n, record, asked); err != nil {
		return "", err
	}
	if c.config.Leadership.Remaining() <= 0 {
		return "", ErrNotRunning
	}
	if record == nil {
		record, err = c.client.create(requests, node, map[string]string{v1alpha1.AnnotationCommission: asked})
	} else {
		record, err = c.client.update(requests, record, func(m *metav1.ObjectMeta) {
			metav1.SetMetaDataAnnotation(m, v1alpha1.AnnotationCommission, asked)
		})
	}
	if err != nil {
		return "", fmt.Errorf("fencing: begin the commission of node %s: %w", node, err)
	}
	c.state.observeRecord(record)
	c.tasks.wake(node)
	return asked, nil
}

// refusal returns everything that prevents a commission, or nil.
func (c *commissions) refusal(ctx context.Context, n *corev1.Node, record *v1alpha1.NodeFence, asked string) error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	bootID := n.Status.NodeInfo.BootID
	if of, _, _ := strings.Cut(asked, "/"); bootID == "" {
		bad("it shows no boot ID, so that a restart could not be seen")
	} else if of != bootID {
		bad("it was asked for when the boot ID was %q, and it is %q", of, bootID)
	}
	switch {
	case record == nil:
	case record.Node != n.Name:
		bad("the record %s is that of node %q", record.Name, record.Node)
	case asked != "" && record.Annotations[v1alpha1.AnnotationCommission] == asked,
		tried(record, asked) && !record.Status.Phase.Ended():
		return errTaken
	case tried(record, asked):
		bad("it was asked for with this very value before: put a slash and a number behind it")
	case record.Status.Phase != v1alpha1.PhaseFinal:
		bad("it is in a fence, or in a commission, which has to end first: %s is %s", record.Name, record.Status.Phase)
	case record.DeletionTimestamp != nil:
		bad("its last record %s is being deleted", record.Name)
	case record.Annotations[v1alpha1.AnnotationStop] != "", record.Annotations[v1alpha1.AnnotationPaused] == "true":
		bad("its last record %s says that nothing is to be done, by an annotation", record.Name)
	}
	wrong = append(wrong, prepared(ctx, c.client, n))
	plan, err := c.plans.plan(ctx, n.Name, "")
	if err == nil {
		err = c.config.usable(plan)
	}
	target := newCommissionTarget(n.Name, string(n.UID), plan)
	if err != nil {
		target.ConfigErrors = []string{err.Error()}
	}
	for _, gate := range c.state.decideContinue(target, c.state.storageReachable(ctx)).Gates {
		if gate.Verdict != policy.Allow {
			bad("%s", gate.Message)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("%w: node %s: %w", ErrRefused, n.Name, err)
	}
	return nil
}

// tried reports whether the last incident of a record is the requested commission.
func tried(record *v1alpha1.NodeFence, asked string) bool {
	return record.Status.Commission != nil && record.Status.Commission.Asked == asked
}

// prepared returns what an admin must still do before a node may lose its power, or nil.
func prepared(ctx context.Context, c client, n *corev1.Node) error {
	var wrong []error
	_, ours := n.Annotations[cluster.AnnotationCordoned]
	if !n.Spec.Unschedulable || ours {
		wrong = append(wrong, errors.New("it has to be cordoned by an admin"))
	}
	of, err := c.outside(n)
	if err != nil {
		return err
	}
	pods, err := of.Undrained(ctx)
	switch {
	case err != nil:
		wrong = append(wrong, err)
	case len(pods) > 0:
		const most = 5
		more := ""
		if len(pods) > most {
			more = fmt.Sprintf(" and %d more", len(pods)-most)
		}
		wrong = append(wrong,
			fmt.Errorf("it has to be drained: %s%s", strings.Join(pods[:min(most, len(pods))], ", "), more))
	}
	return errors.Join(wrong...)
}

// newCommissionTarget returns the question for the policy about a commission.
func newCommissionTarget(node, uid string, plan nodeplan.Plan) policy.Target {
	target := policy.Target{Name: node, UID: uid, Act: policy.Commission}
	for _, level := range plan.PowerManagement {
		target.Devices += len(level.Off())
	}
	return target
}

// commissionTarget returns the question for the policy before the next command of this commission.
func (f *fence) commissionTarget() policy.Target {
	s := &f.record.Status
	target := newCommissionTarget(f.node, string(s.NodeUID), f.plan)
	for _, d := range s.Devices { // each level starts from zero
		target.Switched = target.Switched || d.Level == s.Level && d.Touched
	}
	return target
}

// decideCommission asks the policy whether the next device may be tried.
func (f *fence) decideCommission(ctx context.Context, target policy.Target, storage policy.Status) policy.Decision {
	if !target.Switched {
		n, err := f.client.node(ctx, f.node)
		if err == nil {
			err = prepared(ctx, f.client, n)
		}
		if err != nil {
			return policy.Decision{Verdict: policy.Hold, Reason: "NotPrepared", Message: err.Error()}
		}
	}
	return f.state.decideCommission(target, storage)
}

// ended reports whether a commission has ended, and why it has failed.
func (c *commissions) ended(node, asked string) (bool, error) {
	record := c.state.fence(node)
	if record == nil {
		return false, fmt.Errorf("%w: node %s: its record is gone", ErrCommissionFailed, node)
	}
	s := &record.Status
	switch {
	case record.Annotations[v1alpha1.AnnotationCommission] == asked:
		return false, nil
	case !tried(record, asked):
		return false, fmt.Errorf("%w: node %s: it was not begun, as something else came first", ErrRefused, node)
	case !s.Phase.Ended():
		return false, nil
	}
	return true, outcome(node, s)
}

// outcome returns why an ended commission has failed, or nil if it has succeeded.
func outcome(node string, s *v1alpha1.Status) error {
	if s.Commission.Failed == "" {
		return nil
	}
	if off := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPoweredOff); off != nil &&
		off.Status != metav1.ConditionFalse {
		return fmt.Errorf("%w: node %s: %s; %s", ErrCommissionFailed, node, s.Commission.Failed, off.Message)
	}
	return fmt.Errorf("%w: node %s: %s", ErrCommissionFailed, node, s.Commission.Failed)
}

// announceCommission records an Event about the Node.
func (f *fence) announceCommission(reason statemachine.Reason, s *v1alpha1.Status) {
	about := &corev1.Node{}
	about.Name, about.UID = f.node, s.NodeUID
	if !s.Phase.Ended() {
		f.config.nodeEvent(about, corev1.EventTypeNormal, string(reason), "Commission",
			fmt.Sprintf("incident %d, level %d: %s", s.Incident, s.Level, s.Phase))
		return
	}
	kind, text := corev1.EventTypeNormal, "its power devices are its own"
	reason = statemachine.Commissioned
	err := outcome(f.node, s)
	if err != nil {
		kind, reason, text = corev1.EventTypeWarning, statemachine.CommissionFailed, err.Error()
	}
	f.config.nodeEvent(about, kind, string(reason), "Commission", text)
	if hook := f.config.Hooks.OnCommission; hook != nil {
		hook(f.node, err)
	}
}

// commissionRequest is an annotation of a node that asks for a commission, while it is there.
type commissionRequest struct {
	asked   string // its value
	busy    bool   // it is being handled
	refused bool   // and that was reported
	log     *zap.Logger
	retries *kube.Failures
}

// take handles requests in annotations of nodes, once this process can judge them.
func (c *commissions) take(ctx context.Context) {
	if c.config.Leadership.Remaining() <= 0 || time.Since(c.began) < c.config.Limits.Observation+tick {
		return
	}
	nodes, _ := c.state.nodeLister.List(labels.Everything()) // a lister of an informer has no errors
	for _, n := range nodes {
		q := c.request(n)
		if q == nil || !c.judges(n) {
			continue
		}
		c.mu.Lock()
		q.busy = c.tasks.begin(func() {
			done := c.handle(ctx, n, q)
			c.mu.Lock()
			defer c.mu.Unlock()
			if q.busy = false; done {
				delete(c.requests, n.Name)
			}
		})
		c.mu.Unlock()
	}
}

// request returns the request of a node, or nil if there is none or it is being handled.
func (c *commissions) request(n *corev1.Node) *commissionRequest {
	asked, ok := n.Annotations[v1alpha1.AnnotationCommission]
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.requests[n.Name]
	switch {
	case q != nil && q.busy:
		return nil
	case !ok:
		delete(c.requests, n.Name)
		return nil
	case q == nil || q.asked != asked:
		log := c.config.Logger.With(zap.String("node", n.Name))
		q = &commissionRequest{asked: asked, log: log, retries: kube.NewFailures(log, clock.System())}
		c.requests[n.Name] = q
	}
	return q
}

// judges reports whether the requests of a node are for this controller, and its devices were
// checked.
func (c *commissions) judges(n *corev1.Node) bool {
	facts, known := c.state.nodes.FactsOf(n.Name, time.Now())
	return known && facts.Selected && (c.state.isChecked(n.Name) || !c.state.selected(n))
}

// handle begins a requested commission, or reports once why not. In both cases it removes the
// annotation, which has one effect only, and returns true when it is gone. If the process dies
// before, the record has the request.
func (c *commissions) handle(ctx context.Context, n *corev1.Node, q *commissionRequest) (done bool) {
	retry := func(message string, err error) bool {
		if ctx.Err() == nil {
			q.retries.Note(message, err, message, "")
		}
		return false
	}
	_, err := c.ask(ctx, n.Name, &q.asked)
	switch {
	case errors.Is(err, ErrRefused):
		if !q.refused {
			q.refused = true
			c.config.nodeEvent(n, corev1.EventTypeWarning, "CommissionRefused", "Commission", err.Error())
			q.log.Warn("commission refused", zap.Error(err))
		}
	case err != nil && !errors.Is(err, errTaken):
		return retry("commission not started, retrying", err)
	}
	of, err := c.client.outside(n)
	if err == nil {
		err = of.DropAnnotation(ctx, v1alpha1.AnnotationCommission, q.asked)
	}
	if err != nil {
		return retry("annotation not removed, retrying", err)
	}
	return true
}

// Commissioned has what commissions have proved about a node, namely that these devices switch its
// machine off. It is stored as JSON in the annotation [v1alpha1.AnnotationCommissioned] of the
// Node.
type Commissioned struct {
	// UID of the Node, and system UUID of its machine. The proof is void for any other.
	UID     types.UID `json:"uid"`
	Machine string    `json:"machine,omitempty"`
	// Levels are the proved levels of power_management, in no order. The devices of a level are
	// proved together; a part of them is not proved.
	Levels []ProvedLevel `json:"levels"`
}

// ProvedLevel is a level of devices that has switched off the machine of a node.
type ProvedLevel struct {
	// Devices maps the names of the devices, agent/address/plug, to a hash of their configuration.
	Devices map[string]string `json:"devices"`
	// Before and After are the node's boot IDs.
	Before string `json:"before"`
	After  string `json:"after"`
	// At is when the node was back.
	At metav1.Time `json:"at"`
}

// proofOf returns what is proved about a node. It is empty if the stored proof is about another
// machine.
func proofOf(n *corev1.Node) Commissioned {
	p, none := Commissioned{}, Commissioned{UID: n.UID, Machine: n.Status.NodeInfo.SystemUUID}
	if json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationCommissioned]), &p) != nil || p.UID != none.UID ||
		p.Machine != none.Machine {
		return none
	}
	return p
}

// switched returns the devices that a level switches off, in the form of ProvedLevel.Devices.
func switched(level nodeplan.Level) map[string]string {
	all := map[string]string{}
	for _, m := range level.Off() {
		all[m.Device.Key] = m.Device.Hash()
	}
	return all
}

// proves reports whether exactly these devices are proved together. A missing device may have been
// the one that mattered, and an additional one may belong to another machine.
func (p Commissioned) proves(devices map[string]string) bool {
	return slices.ContainsFunc(p.Levels, func(l ProvedLevel) bool { return maps.Equal(l.Devices, devices) })
}

// with returns the proof with one more level. It drops levels that the plan no longer has.
func (p Commissioned) with(proved ProvedLevel, plan nodeplan.Plan) Commissioned {
	var kept []ProvedLevel
	for _, l := range p.Levels {
		same := func(level nodeplan.Level) bool { return maps.Equal(switched(level), l.Devices) }
		if !maps.Equal(l.Devices, proved.Devices) && slices.ContainsFunc(plan.PowerManagement, same) {
			kept = append(kept, l)
		}
	}
	p.Levels = append(kept, proved)
	return p
}

// unproved lists the power devices in a node's configuration that are not proved.
func (c *clusterState) unproved(node string, plan nodeplan.Plan) (names []string) {
	var p Commissioned
	if n, err := c.nodeLister.Get(node); err == nil {
		p = proofOf(n)
	}
	for _, level := range plan.PowerManagement {
		if of := switched(level); len(of) > 0 && !p.proves(of) {
			names = append(names, slices.Sorted(maps.Keys(of))...)
		}
	}
	return names
}

// errNotBack means that the node has not rebooted, contrary to the state machine's last look at it.
var errNotBack = errors.New("fencing: the node is not back yet")

// writeProof stores the proof for the commissioned level at the Node.
func (f *fence) writeProof(ctx context.Context, node *cluster.Node) error {
	n, err := f.client.node(ctx, f.node)
	if err != nil {
		return err
	}
	s := &f.record.Status
	after := n.Status.NodeInfo.BootID
	if n.UID != s.NodeUID || after == "" || after == s.BootID || f.plan.Hash != s.ConfigHash {
		return errNotBack
	}
	proved := ProvedLevel{
		Devices: map[string]string{}, Before: s.BootID, After: after,
		At: metav1.NewTime(time.Now().Truncate(time.Second)),
	}
	for _, d := range s.Devices {
		if d.Level != s.Level {
			continue
		}
		of, ok := f.plan.Device(d.Device)
		if !ok {
			return errNotBack
		}
		proved.Devices[d.Device] = of.Hash()
	}
	text, err := json.Marshal(proofOf(n).with(proved, f.plan))
	if err != nil {
		return err
	}
	return node.Annotate(ctx, f.config.requireLeader, v1alpha1.AnnotationCommissioned, string(text))
}
