// Package sharder distributes the objects of a Kubernetes controller over its replicas, so that each of them works on its own part: it
// makes a controller scale out, with the guarantee that no two replicas work on one object at a time.
//
// All replicas are equal. Each is a shard: it holds a Lease of its own as its heartbeat (package shardlease), and lists, watches and works on
// the objects that carry its label. One of them, elected, is also the sharder: it follows the Leases, gives each object to a shard by
// consistent hashing (package ring), and moves objects when shards come and go. Everything is in labels and annotations on
// the objects: there is no webhook, no custom resource, no database, and objects go on being worked on while no sharder runs.
//
// In main, with error handling left out:
//
//	resources := []api.Resource{{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}}
//	lease, _ := shardlease.New(leaseClient, shardlease.Config{Namespace: ns, Ring: "checksum"})
//	config.Wrap(lease.WrapTransport) // clients made from config write only while the lease is held
//	worker, _ := shard.New(metadata, mapper, lease, shard.Config{Resources: resources})
//	elector, _ := leaderelection.New(leaseClient, leaderelection.Config{Namespace: ns, Name: "checksum-sharder", OnLost: func(error) {}})
//	s, _ := sharder.New(kube, sharderMetadata, mapper, sharder.Config{Namespace: ns, Ring: "checksum", Resources: resources})
//
//	sharder.Replica{Lease: lease, Elector: elector, Sharder: s}.Run(ctx, func(ctx context.Context) error {
//		return controller(ctx, worker) // for example by shard.RunController
//	})
//
// [Replica] ends the work, the sharder and the lease in this order. Package replica makes all of this from one client configuration;
// examples/sharding is a whole program, and examples/controllerruntime one made with controller-runtime.
//
// The sharder's clients are guarded by the elector ([leaderelection.Elector.WrapTransport]), not by the lease, and have no rate limit: QPS -1 in
// the rest.Config. The default of client-go is 5 requests per second; a sharder that is held back by its client says so.
//
// # Protocol
//
// An object of a ring called <ring> carries
//
//   - the label shard.bellwether.dev/<ring>: the shard that sees it,
//   - the label drain.bellwether.dev/<ring>, if that shard is to let go of it,
//   - the annotation owner.<resource>.bellwether.dev/<ring>: the record of its owner. It names the object's UID, the shard, the Lease and the
//     epoch of the shard, and says whether the shard owns the object or has let go of it. <resource> is such as configmaps or replicasets.apps;
//     owner.bellwether.dev/<ring> has the same once more, for replicas of v0.1;
//   - the label seal.bellwether.dev/<ring>: a digest of that record.
//
// The record decides who may work, the label who sees it. An epoch is a period in which a shard's claims are good: it ends when the shard
// releases its Lease, or when the sharder takes the Lease after the shard has not renewed it for twice its duration. A shard that
// restarts within that time goes on in its epoch, and nothing moves.
//
//	a new object               the sharder sets label and record
//	a shard joins              drain, and the record says who is next; the shard ends its work and gives the object away itself
//	the same, with Children    drain; the shard ends its work, removes both labels and marks the record free; the sharder assigns
//	a shard releases its Lease the sharder assigns its objects to others at once
//	a shard dies               after two lease durations the sharder takes its Lease, once; then as above
//	a user edits labels        the sharder makes them again what the record says
//	a user removes everything  who may be at work on the object is asked, one after another; see below
//
// Every patch names the UID and the version of the object that it was decided on, so a decision on a stale object is refused by the
// server and made anew: for that object alone, by reading it.
//
// Objects without a record are new, or stripped of it by a full replacement. The sharder keeps the memberships since the ring was
// settled last, when a scan found every object in its place, in a ConfigMap ([HistoryName]), written before anything is assigned under a
// new one. Under a settled ring such an object has one possible owner and is simply assigned. Otherwise every other shard that may
// have owned it becomes its owner in name, drained, and has to let go first.
//
// # Who is next
//
// An object without Children goes from one living shard to another in two writes. The sharder drains
// it, and says in its record who is next. The shard that has it ends its work, and then makes the
// other one its owner, in the same patch that otherwise says that it has let go. Where that would not
// be right, it lets go, and the sharder assigns the object with a third write: Children have to be
// moved first, others have to be asked, the shard is no member of the ring at the time, or the drain
// label was set by somebody else. For this the label has the seal of the record that says who is next.
//
// If the ring changes meanwhile, the sharder says anew who is next. If that comes too late, or who is
// next has ended when it gets the object, it is an object like any other that is out of place: a ring
// is settled only when a scan has found each object with its owner. The history names a shard that is
// no member any more until it is known to be at an end: a drain that was sent before can come late.
//
// A shard of v0.1 does not know who is next and lets go, and a sharder of v0.1 does not say it: so
// replicas of both versions can run side by side.
//
// # Objects that do not get on
//
// An object that cannot be changed, because a policy denies it or for any other reason, concerns no
// other. It is tried again after pauses of up to half a minute, without a list, and the log says
// why, once for each cause. A child that cannot be changed keeps its root waiting in the same way.
// Objects without progress are looked at by scans that grow as rare as ScanInterval. Up to 100 of
// them do not keep the history growing: it says of each of them who may have owned it, and forgets
// the memberships that the others have behind them. The ring is not settled until they are with
// their owners, though.
//
// The history grows while more than those are out of place, or a resource cannot be listed, and
// shards come and go. At half a megabyte, some thousand replaced shards, it forgets which objects
// they have owned: from then until the ring is settled, an object without a record, which every new
// one is, is taken in turn from each shard of that time that may still live. A plan takes as much
// memory as a ring of all the shards that the history names, 14 bytes for each of their tokens.
//
// A record that names an epoch that its shard has never had counts as none: those are asked who may
// have owned the object, and the shard it names, should it have begun that epoch meanwhile.
//
// # Copies
//
// Controllers copy annotations from one object to another, and users restore old ones: that of Deployments copies those of a Deployment to its
// ReplicaSets at each sync, and kubectl rollout undo puts back what a ReplicaSet has kept. A record that reaches an object in such a way
// does not count. That of another object names another UID, and if it is of another resource, it is in another annotation than
// the object's own, which stays. That of the same object from an earlier time does not fit the seal, which nobody but sharder and shards writes
// together with the record. An object with such a record is treated as one without: who may be at work on it is asked.
// Annotations with records of other objects are removed from an object, unless they are of its owners, which would copy them again.
//
// A record of v0.1 has no seal, and counts as it did until it is written again: by the first sharder of this version that scans the object.
// While replicas of v0.1 run, what they write later than this version counts: until they have ended, do not undo a roll-out of an
// object of the ring.
//
// # Children
//
// Objects that a controller creates for others, such as the Pods of a ReplicaSet, need no places of their own: as [api.Resource].Children they
// are always with the shard of their root, which is the object that their controller owner reference names. They have the label, and no
// record. [shard.Shard.Do] for a child asks whether its root may be worked on, and counts as work on that.
//
//	a new child            carries the label already ([shard.Shard.Stamp]), or the sharder sets that of its root's shard
//	a root is handed over  when nobody works on it any more, its children are given to the next shard first, and then the root
//	a user edits a label   a child without a shard is found by the sharder at once, one of a shard that is gone by the next scan, and one that
//	                       is with another shard than its root by that shard, which marks it with the drain label within half a minute
//
// A root's record says which version of its children the shard's caches have to show before work on the family begins: a shard sees all
// that the one before it has created, and all that were there before the ring was. Children that the same shard has created it sees as soon as its caches show them, as ever.
// A root that comes without a record may have been the shard's before, and lost the record that said so. Its next record names the
// greatest version of all the children that are known to be with the shard.
//
// For a root that cannot have been another shard's nothing is listed, if its resource has no
// Selector: there are no children yet, or they are its shard's already. What somebody else has
// created for it meanwhile the shard sees when the sharder has labelled it.
//
// Where the shard of a root was lost together with its record, or a sharder has ended in the middle of a move, the children of any shard are
// listed instead of those of one.
//
// Roots that are let go of together move together: while children are listed for some, others queue up for the next list. So one root does not
// wait for others, and 10,000 do not have their children listed 10,000 times.
//
// # Several generations
//
// Grandchildren follow nobody: their controller is no root. Trees such as Deployment, ReplicaSet, and Pod are kept together by making
// Deployments and ReplicaSets resources of the ring, with Pods as children of ReplicaSets, and giving both a [api.Resource].Key that is the same
// for all of a tree: [api.NamespaceKey], or a KeyFunc of one's own that follows from what they have in common and never changes, such as a
// label of the application. Objects of equal keys belong to the same shard, and are there when the ring is settled. Each of
// these roots is moved by itself, though: while shards come and go a Deployment may be with one shard already, and its ReplicaSet with another
// still. Do excludes others from one of them, not from the tree.
//
// # Guarantees
//
//   - No two processes execute [shard.Shard.Do] for one object at a time, nor for objects of one family, a root and its children: whatever the
//     latency, the clocks, the order of events, restarts, partitions, changes of the sharder, lost responses, and edits of labels and
//     annotations, but for those named below.
//   - Every object is given to a living shard when faults have ended.
//   - The sharder holds no objects in memory but those that it is busy with: its memory does not depend on how many are assigned.
//   - A resource that cannot be listed or is not served, or whose children are not, keeps its own objects waiting, and those of no other.
//     [Hooks].OnResource and [Status] name it. The ring is not settled meanwhile.
//   - A sharder that has lost its election writes nothing that does harm: what it had already sent either comes first, or is refused.
//
// # Not guaranteed
//
//   - A record that is forged, or replayed together with the labels of that time, such as that of an exported manifest or of a backup put back
//     over the same object; hand-edited epochs or holders of Leases; the ring's history deleted while objects are without records. Let nobody else write those.
//   - A restore of etcd from a backup: restart all replicas.
//   - A request that is already at the server outlives the Do that sent it.
//   - An object that ceases to be selected by Resource.Selector stays with its shard, and is nobody's business until it is selected again. If
//     its record is removed in the same write by which it is selected again, two shards may work on it for a moment.
//   - A child whose label somebody removes or changes is not in the caches of its root's shard until the sharder has put it there again. Work
//     that creates what it does not find there should ask the API server first, or give a child a name that follows from its root's.
//   - A child that was not stamped is invisible to the shard that has created it until the sharder comes by, also for longer if no sharder
//     runs. Deterministic names keep such a child from being created twice.
//   - That a child was deleted by the shard before may be seen late, as in every cache. What it has created is seen.
//   - A root waits for its next shard for as long as one of its children cannot be patched, which the log of the sharder says.
//   - A child with whose controller owner reference something is wrong is nobody's, and so is one whose root is gone: it is left to the
//     garbage collector.
//   - A process that is stopped or starved acts on what it knew until it is scheduled: see KernelDeadline of package shardlease.
//   - An object on its way between two living shards is worked on by nobody: usually for milliseconds, for as long as its work in
//     the old shard takes ([Hooks].OnOverdue tells).
//
// # Costs
//
//	new object                               1 patch; with Children and a Selector, a share in 1 list of those that are with no member, for each resource
//	new child                                0 if it was stamped; otherwise 1 patch, and 1 read of its root
//	move between living shards               2 patches; with Children 3, and 1 for each child
//	release or death of a shard              1 patch for each of its objects, and 1 for each of their children
//	restart within two lease durations       0
//	first scan after an upgrade from v0.1    1 patch for each object
//	annotations of another object copied     0 if that is its owner; otherwise 1 patch, 2 if the shard sends the object back
//	edit repaired                            1 patch, 2 if the shard sends the object back
//	object that cannot be patched            1 read and 1 patch every 30 s; with a child that cannot, 1 list of children besides
//	object without a record, unsettled ring  1 patch, and 2 for each living shard that may have owned it
//	change of membership                     2 writes of the history, and 1 read of each Lease that it names and that is gone
//	join                                     2 lists of all objects, in pages
//	release or death                         1 list of the moved objects and one of all, in pages
//	batch of moved roots                     for each resource of children, 1 list of those of the shards that they come from, in pages
//	first root that a sharder assigns        for each resource of children, 1 list of all of them, in pages
//	steady state                             1 list of all objects, in pages, every ScanInterval, and for each resource of
//	                                         children 2 lists of those that are with no member, or marked, which are none
//
// The sharder watches, with metadata only, the objects that are with no member (label selector "notin"), those that are drained, and children
// without a label or marked. With so many shards that a URL cannot name them (4 KB) it watches those without a label, and the scan finds the others.
// [Config].WatchAll has it watch everything.
//
// # RBAC
//
// For the sharder, on each resource, of children too, cluster-wide or in each namespace:
//
//	get, list, watch, patch
//
// In the namespace of the Leases:
//
//	leases (coordination.k8s.io): get, list, watch, create, update, delete (delete only of Leases that have been dead for long)
//	configmaps: create; get, update (may be restricted to the name of the history)
//
// besides what leader election needs. For a shard, on each resource, of children too: get, list, watch, patch, and what its work needs; and
// for its Lease see package shardlease. What is missing is an error of [Sharder.Run] at start that says what to grant,
// or a warning if the objects of another resource can be distributed.
//
// # Migration
//
// A controller of which one elected replica works on all objects becomes sharded in two releases, each rolled out as usual. In the first
// one, still one replica works on all objects. It is elected by package leaderelection, on the same Lease as before, and makes sure that
// there is no ring, or not any more:
//
//	elector.Run(ctx, func(ctx context.Context) error {
//		if err := s.StripLabels(ctx); err != nil {
//			return err
//		}
//		return controller(ctx)
//	})
//
// In the second one all replicas are shards, and the sharder is elected on that Lease.
//
// While replicas of both releases run, the leader is either a sharder, or a replica of the first release that waits for the shards to end: so no
// two work on one object, whoever is elected in whatever order. Meanwhile, objects that are with a shard are worked on, and others
// are not. The way back is the same one: the first release ends the ring, and from it any release before it can be rolled out.
//
// A replica from before the first release knows nothing of shards. If one of them is elected while there are any, both work: so the first
// release has to be rolled out to all replicas before the second.
//
// To leave nothing behind when a controller is uninstalled, let a program call StripLabels under the election when all replicas have ended, and
// then delete the Leases and the ConfigMap with the label ring.bellwether.dev/name=<ring>.
//
// # Tests
//
// New takes interfaces, so client-go's fake clientsets work; see the example. Package shardertest makes a shard on one of them, and has a
// test of a reconciler as a user would write it. The fakes do not detect conflicts, and do not select: that is
// checked again on this side.
package sharder
