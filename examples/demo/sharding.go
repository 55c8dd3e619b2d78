package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/referee"
)

const (
	demoRing    = "bellwether-demo"
	objectCount = 1000
)

// cast are all shards of the chapter.
var cast = []string{"a", "b", "c", "d"}

// sharding is a chapter: copies of examples/sharding, which divide the ConfigMaps among them.
type sharding struct {
	*stage
	objects *objects
	census  *census
	history *history
	pieces  *referee.Pieces
	shards  map[string]*e2e.Process
	living  []string // sorted
}

func playSharding(ctx context.Context, s *stage) (err error) {
	o, err := newObjects(s, demoRing, objectCount)
	if err != nil {
		return err
	}
	if err := o.remove(ctx); err != nil { // what an earlier demo has left behind
		return err
	}
	defer func() { err = errors.Join(err, o.remove(context.WithoutCancel(ctx))) }()
	d := &sharding{
		stage: s, objects: o, census: newCensus(demoRing), history: newHistory(), pieces: referee.NewPieces(),
		shards: map[string]*e2e.Process{},
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { o.watch(ctx, d.census) })
	return d.play(ctx)
}

// play is the scenario. It returns an error if anything unexpected happens.
func (d *sharding) play(ctx context.Context) error {
	d.paragraph("Three shards put the checksum of each of %d ConfigMaps into an annotation. 20 ConfigMaps per second "+
		"are edited, and each "+
		"shard looks at all of its own every 2 s. Its Lease expires after %v; the shard is dead after twice that.",
		objectCount, leaseDuration)
	d.paragraph("")
	if err := d.during("Creating the ConfigMaps", func() error {
		if err := d.objects.create(ctx); err != nil {
			return err
		}
		return d.await(ctx, func() (bool, error) { return d.census.size() == objectCount, nil })
	}); err != nil {
		return err
	}
	d.start = time.Now()
	editing, stop := context.WithCancel(ctx)
	var editors sync.WaitGroup
	var edits error
	editors.Go(func() { edits = d.objects.edit(editing, 50*time.Millisecond) })
	endEdits := func() error {
		stop()
		editors.Wait()
		return edits
	}
	defer func() { _ = endEdits() }()
	recording, stopRecording := context.WithCancel(ctx)
	var recorder sync.WaitGroup
	recorder.Go(func() { d.record(recording) })
	defer recorder.Wait()
	defer stopRecording()
	for _, act := range []func(context.Context) error{d.begin, d.join, d.kill, d.end} {
		if err := errors.Join(act(ctx), sleep(ctx, calm)); err != nil {
			return err
		}
	}
	if err := endEdits(); err != nil {
		return err
	}
	return d.judge(ctx)
}

// begin starts the first three shards.
func (d *sharding) begin(ctx context.Context) error {
	return d.step(ctx, "start", "a, b and c start", func() error {
		return errors.Join(d.launch("a"), d.launch("b"), d.launch("c"))
	})
}

// join scales to four.
func (d *sharding) join(ctx context.Context) error {
	if err := d.step(ctx, "join", "d joins", func() error { return d.launch("d") }); err != nil {
		return err
	}
	d.result("join: no object was without a shard for longer than %v", d.census.since().unattended)
	return nil
}

// kill ends the shard that is also the sharder, so that both need a successor.
func (d *sharding) kill(ctx context.Context) error {
	victim := d.pieces.Sharder()
	return d.step(ctx, "kill -9", victim+": kill -9", func() error {
		d.say(victim, "kill -9: it is also the sharder. Another takes over after %v,", leaseDuration)
		d.say(victim, "         and waits until %v have passed, in case it returns", 2*leaseDuration)
		d.leave(victim)
		return d.shards[victim].Kill()
	})
}

// end asks a shard to end, as a rollout does.
func (d *sharding) end(ctx context.Context) error {
	leaving := d.living[0]
	p := d.shards[leaving]
	if err := d.step(ctx, "kill -TERM", leaving+": kill -TERM", func() error {
		also := ""
		if leaving == d.pieces.Sharder() {
			also = "then the sharder, "
		}
		d.say(leaving, "kill -TERM: it ends its work, %sthen its lease", also)
		d.leave(leaving)
		return p.Terminate()
	}); err != nil {
		return err
	}
	exit, err := d.exited(ctx, p, 0)
	if err != nil {
		return err
	}
	d.say(leaving, "%v", exit)
	return nil
}

// step changes the shards and waits until every object is with its owner again. In the picture it
// is called label.
func (d *sharding) step(ctx context.Context, name, label string, act func() error) error {
	d.census.mark()
	d.paragraph("%s", header(cast))
	d.row()
	at := time.Now()
	if err := act(); err != nil {
		return err
	}
	if err := d.await(ctx, func() (bool, error) { return d.census.placed(objectCount, d.living) }); err != nil {
		return err
	}
	m := d.census.since()
	d.row()
	d.history.note(mark{at: at.Sub(d.start), name: label, objects: m.objects, took: m.last.Sub(at)})
	d.result(fmt.Sprintf("%s: %d objects moved", name, m.objects)+", the first after %v, the last after %v",
		m.first.Sub(at), m.last.Sub(at))
	d.hanging(d.results[len(d.results)-1])
	return nil
}

// await waits until reached returns true, and prints the table once in a while.
func (d *sharding) await(ctx context.Context, reached func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows := time.NewTicker(time.Second)
	defer rows.Stop()
	for {
		if done, err := reached(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			d.row()
			return fmt.Errorf("the objects are not where they belong after %v", patience)
		case <-d.census.news:
		case <-rows.C:
			d.row()
		}
	}
}

// judge ends the shards and compares all their work.
func (d *sharding) judge(ctx context.Context) error {
	if err := d.await(ctx, func() (bool, error) { return d.census.right() == objectCount, nil }); err != nil {
		return err
	}
	if placed, err := d.census.placed(objectCount, d.living); err != nil || !placed {
		return errors.Join(err, errors.New("an object is not with a living shard"))
	}
	d.row()
	if err := d.group.Close(); err != nil {
		return err
	}
	for name, p := range d.shards {
		exit, err := p.Wait(ctx)
		if err != nil {
			return err
		}
		d.pieces.Exited(name, exit.At)
	}
	d.sum()
	d.hanging(fmt.Sprintf("%d of %d objects have a right checksum, and are with a living shard: %s.",
		d.census.right(), objectCount, strings.Join(d.living, " or ")))
	overlap, n := d.pieces.Verdict()
	if overlap != "" {
		return fmt.Errorf("two shards worked on one object at once: %s", overlap)
	}
	d.hanging(fmt.Sprintf("Two shards at once on one object: never (%d pieces of work compared).", n))
	return d.draw()
}

func (d *sharding) launch(name string) error {
	p, err := d.run(name, func(line string) { d.pieces.Note(name, line) },
		"-identity", name, "-ring", demoRing, "-resync", "2s", "-work-takes", "5ms", "-journal")
	if err != nil {
		return err
	}
	d.shards[name] = p
	d.living = append(d.living, name)
	d.say(name, "started")
	return nil
}

// leave is called before a shard ends.
func (d *sharding) leave(name string) {
	d.history.leave(name)
	d.living = slices.DeleteFunc(d.living, func(s string) bool { return s == name })
}

// record adds counts to the history until ctx ends.
func (d *sharding) record(ctx context.Context) {
	for ; ctx.Err() == nil; _ = sleep(ctx, 100*time.Millisecond) {
		d.history.add(d.census.count(time.Since(d.start)))
	}
}

// draw makes a picture of the history.
func (d *sharding) draw() error {
	if d.picture == "" {
		return nil
	}
	counts, marks := d.history.all()
	svg, err := picture(cast, counts, marks)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(d.picture), 0o755),
		os.WriteFile(d.picture, svg, 0o644)); err != nil {
		return err
	}
	d.paragraph("A picture of it: %s", d.picture)
	return nil
}

// row prints the table's next line.
func (d *sharding) row() { d.paragraph("%s", d.census.row(cast, time.Since(d.start))) }
