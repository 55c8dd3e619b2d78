package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

const (
	objectCount = 200
	outage      = 2 * time.Second
	refusal     = 4 * time.Second
)

// operators are replicas of a sharded operator. The leader is the sharder.
type operators struct {
	crew
	killed string // the first that was
}

func playOperators(ctx context.Context, s *stage) error {
	o := &operators{crew: crew{stage: s, job: Digests, identity: "-identity", processes: map[string]*e2e.Process{}}}
	if err := o.prepare(ctx); err != nil {
		return err
	}
	for _, event := range []func(context.Context) error{
		o.begin, o.join, o.mislabel, o.refuse, o.cutOff, o.killSharder, o.returns, o.crash, o.endSharder,
	} {
		if err := errors.Join(event(ctx), sleep(ctx, calm)); err != nil {
			return err
		}
	}
	return nil
}

// prepare creates the objects. The requests of the operators pass through a network that can be cut.
func (o *operators) prepare(ctx context.Context) error {
	content, err := o.server.Kubeconfig(o.job, Namespace)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return err
	}
	for _, cluster := range config.Clusters {
		if cluster.Server, err = o.through(cluster.Server); err != nil {
			return err
		}
	}
	content, err = clientcmd.Write(*config)
	kubeconfig, err := o.kubeconfig(o.job, content, err)
	if err != nil {
		return err
	}
	o.args = []string{
		"-kubeconfig", kubeconfig, "-namespace", Namespace, "-lease-duration", leaseDuration.String(),
		"-work-takes", "500ms",
	}
	for i := range objectCount {
		_, err := o.client.CoreV1().ConfigMaps(Namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprintf("object-%03d", i),
				Labels: map[string]string{"example.bellwether.dev/digest": "wanted"},
			},
			Data: map[string]string{"number": fmt.Sprint(i)},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *operators) begin(ctx context.Context) error {
	o.happened("a, b and c start")
	return errors.Join(o.launch(ctx, "a", "b", "c"), o.settled(ctx))
}

func (o *operators) join(ctx context.Context) error {
	o.happened("d joins")
	return errors.Join(o.launch(ctx, "d"), o.settled(ctx))
}

// mislabel gives an object the label of another shard, as a user may by mistake.
func (o *operators) mislabel(ctx context.Context) error {
	objects, label := o.client.CoreV1().ConfigMaps(Namespace), api.ShardLabel(o.job)
	object, err := objects.Get(ctx, "object-000", metav1.GetOptions{})
	if err != nil {
		return err
	}
	other := "b"
	if object.Labels[label] == other {
		other = "c"
	}
	o.happened("a user gives an object the label of " + other)
	patch := []byte(fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, label, other))
	if _, err := objects.Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return o.await(ctx, "the label is as before", func(ctx context.Context) (bool, error) {
		now, err := objects.Get(ctx, object.Name, metav1.GetOptions{})
		return err == nil && now.Labels[label] == object.Labels[label], err
	})
}

// refuse takes the right away to read Secrets, as an edited role does.
func (o *operators) refuse(ctx context.Context) error {
	o.happened(fmt.Sprintf("they may not read Secrets for %v", refusal))
	resource := "secrets"
	o.gate.refused.Store(&resource)
	o.network.Cut() // for watches that are open
	o.network.Heal()
	err := sleep(ctx, refusal)
	o.gate.refused.Store(nil)
	return errors.Join(err, o.settled(ctx))
}

// cutOff is a short outage of the API server.
func (o *operators) cutOff(ctx context.Context) error {
	o.happened(fmt.Sprintf("the API server is away for %v", outage))
	o.network.Cut()
	err := sleep(ctx, outage)
	o.network.Heal()
	return errors.Join(err, o.settled(ctx))
}

// killSharder ends it without a word. Its objects are given to others when its lease has expired.
func (o *operators) killSharder(ctx context.Context) (err error) {
	if o.killed, err = o.led(ctx); err != nil {
		return err
	}
	o.happened(o.killed + ", the sharder: kill -9")
	return errors.Join(o.kill(o.killed), o.settled(ctx))
}

// returns starts the shard again that was killed.
func (o *operators) returns(ctx context.Context) error {
	o.happened(o.killed + " returns")
	return errors.Join(o.launch(ctx, o.killed), o.settled(ctx))
}

// crash ends a shard without a word, and starts it again at once. It waits until its lease has
// expired: that does not say that the process is dead.
func (o *operators) crash(ctx context.Context) error {
	o.happened(o.killed + ": kill -9, and it is started again at once")
	if err := errors.Join(o.kill(o.killed), o.launch(ctx, o.killed)); err != nil {
		return err
	}
	if err := o.await(ctx, o.killed+" has its lease", func(context.Context) (bool, error) {
		return o.scraper.value(o.target(o.killed), "bellwether_shardlease_held") == 1, nil
	}); err != nil {
		return err
	}
	return o.settled(ctx)
}

// endSharder ends it as a rollout does.
func (o *operators) endSharder(ctx context.Context) error {
	leaving, err := o.led(ctx)
	if err != nil {
		return err
	}
	o.happened(leaving + ", the sharder: kill -TERM")
	return errors.Join(o.end(ctx, leaving), o.settled(ctx))
}

// settled waits until the sharder says that all shards are there, and all objects with their owners.
func (o *operators) settled(ctx context.Context) error {
	return o.await(ctx, fmt.Sprintf("a ring of %d shards is settled", len(o.processes)),
		func(context.Context) (bool, error) {
			is := func(metric string) float64 {
				return o.scraper.value(o.target(o.leader()), "bellwether_sharder_"+metric)
			}
			return is("members") == float64(len(o.processes)) && is("unsettled") == 0 &&
				is("placed_objects") == objectCount, nil
		})
}
