// Package sharder divides the objects of a Kubernetes controller among its replicas. Each replica
// works on its own part, so the controller scales out, and no two replicas work on one object at a
// time. There is nothing to install: no webhook, no custom resource, no database.
//
// Package replica makes a replica from one client configuration:
//
//	r, err := replica.New(config, replica.Config{
//		Namespace: ns, Ring: "checksums", Logger: log,
//		Resources: []api.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}},
//	})
//	...
//	client, err := kubernetes.NewForConfig(r.ShardConfig) // writes only while the replica holds its lease
//	...
//	return r.Run(ctx, func(ctx context.Context) error {
//		source := shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client)
//		informer := r.Shard.NewInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
//		return shard.RunController(ctx, r.Shard, informer, 4, reconcile)
//	}, nil)
//
// examples/sharding is a complete program, and examples/controllerruntime one with
// controller-runtime.
//
// All replicas are equal. Each is a shard: it holds its own Lease as a heartbeat (package
// shardlease), and lists, watches and works on the objects that carry its label (package shard).
// One of them is also elected as the sharder, which this package implements: it follows the Leases,
// assigns each object to a shard by consistent hashing (package ring), and moves objects when
// shards come and go. All state is in labels and annotations on the objects, so shards continue to
// work while no sharder runs.
//
// A program that makes the parts itself composes them in a Replica of package replica, which ends the work,
// the sharder and the lease in this order. The sharder's clients are guarded by the elector
// ([leaderelection.Elector.WrapTransport]), not by the lease. They must have no rate limit (QPS -1
// in the rest.Config), because client-go limits them to 5 requests per second by default; a sharder
// that its client delays logs a warning.
//
// # Guarantees
//
//   - No two processes execute [shard.Shard.Do] at a time for one object, or for objects of one
//     family (a root and its children). This holds for any latency, clocks, order of events,
//     restarts, partitions, changes of the sharder, lost responses, and edits of labels and
//     annotations, except those named below.
//   - Work on an object that has moved begins on caches that show what the former shard has written
//     to the object and its children. Package shard describes what that covers.
//   - Every object is given to a living shard once faults have ended.
//   - A new object that others do not write has a living owner within a second after a sharder
//     leads, whichever other shards may be dead (TestANewObjectGetsALivingOwnerAtOnce). The sharder
//     waits for a shard that is Away.
//   - The sharder holds in memory only the objects that it is busy with, so its memory does not
//     depend on how many are assigned.
//   - A resource that cannot be listed or is not served, or whose children are not, delays only its
//     own objects. [Hooks].OnResource and [Status] name it, and the ring is not settled meanwhile.
//   - A drained shard, that is one of weight 0, gets no objects, and lets go of each that it has when
//     work on it has ended, but if no other shard is left, it gets objects again
//     (TestADrainedShardLetsGo, TestAllShardsCannotBeDrained).
//   - An object whose reconciliation ends the process takes no other object down with it
//     (TestAnObjectThatCrashesItsShardsIsHeldBack), as described below.
//   - An object that no living shard owns for [Config].UnownedAfter is reported, for up to 100
//     objects at a time (TestAnObjectThatNoShardOwnsSaysSo).
//   - A reconciler that removes the ring's labels or annotations from its objects, or the stamp
//     from their children, costs up to 13 writes of the sharder for each of them in the first 10
//     minutes, and then one every 5 minutes. Each pause is reported
//     (TestLabelsThatAreRemovedAgainAndAgainAreSetEverMoreRarely,
//     TestStampsThatAreRemovedAgainAndAgainAreSetEverMoreRarely).
//   - A sharder that has lost its election writes nothing harmful: what it had already sent either
//     arrives first or is refused.
//
// # Not guaranteed
//
//   - A record that is forged, or replayed together with the labels of that time, for example from
//     an exported manifest or a backup put back over the same object; hand-edited epochs or holders
//     of Leases; the ring's history deleted while objects are without records. Let only the sharder
//     and the shards write these.
//   - A restore of etcd from a backup: restart all replicas.
//   - A request that has already reached the server outlives the Do that sent it.
//   - Work on a root does not end when one of its children gets another root, so it must check
//     whose child it is before it touches one. A child whose new root moves just then goes with it
//     at once, even if there is work on the child as one of the former root. So does a child that
//     loses its label.
//   - An object that Resource.Selector no longer selects stays with its shard until work on it has
//     ended. If it is selected again before that, in a write that also removes its record, two shards
//     may work on it for a moment.
//   - A child whose label others have removed or changed is missing from the caches of its root's
//     shard until the sharder has restored the label. Work that creates what it does not find there
//     should ask the API server first, or derive a child's name from its root's.
//   - A child that was not stamped is invisible to the shard that has created it until the sharder
//     has labelled it, which takes longer if no sharder runs. Deterministic names keep such a child
//     from being created twice.
//   - A root waits for its next shard for as long as one of its children cannot be patched; the
//     sharder logs that.
//   - A child belongs to no shard if its controller owner reference is invalid, if its root is gone
//     (it is left to the garbage collector), or if it has no controller and several owners that
//     have such Children, which the sharder logs
//     (TestChildrenWithoutAControllerAreThoseOfTheirOnlyOwner).
//   - A process that is stopped or starved may act on what it last knew when it is scheduled again:
//     see KernelDeadline of package shardlease.
//   - No shard works on an object while it moves between two living shards: usually for
//     milliseconds, but for as long as the old shard's work on it takes ([Hooks].OnOverdue).
//
// # Children
//
// Objects that a controller creates for others, such as the Pods of a ReplicaSet, need no places of
// their own. As [api.Resource].Children they are always with the shard of their root: the object
// that their controller owner reference names or, without a controller, their only owner of a kind
// with such Children. They have the label but no record. [shard.Shard.Do] for a child checks
// whether work on its root may begin, and counts as work on the root.
//
//	a new child            carries the label already ([shard.Shard.Stamp]), or the sharder sets that
//	                       of its root's shard
//	a root is handed over  when no work on it is left, its children are given to the next shard
//	                       first, and then the root
//	a user edits a label   the sharder finds a child without a shard at once, and one of a shard
//	                       that is gone by the next scan; a child with another shard than its root's
//	                       is found by that shard, which marks it with the drain label within half a
//	                       minute
//	a child gets another   the shard that it is with marks it with the drain label when its work on
//	root                   the child has ended, and cancels that work after AckGrace
//
// A root's record states which version of its children the shard's caches must show before work on
// the family begins. So a shard sees all children that its predecessor has created, and all that
// existed before the ring, while those that it creates itself appear in its caches later, as usual.
// It also never sees a child that its predecessor has deleted, because the remaining children get a
// later version when they move, and caches reach that. If no child remains, the record has the
// version of the list that showed this, and a shard waits for it if its cache still shows a child.
// A root without a record may have been the shard's before, so its next record names the greatest
// version of all the children that are known to be with the shard.
//
// If a root cannot have been another shard's and its resource has no Selector, nothing is listed,
// because there are no children yet, or they are with its shard already. Children that others have
// created meanwhile become visible to the shard when the sharder has labelled them.
//
// If the shard of a root was lost together with its record, or a sharder ended in the middle of a
// move, the children of all shards are listed instead of those of one.
//
// The network may delay a patch of the former sharder, or one whose outcome is unknown, for any
// time. Such a patch names the version of its object, so it is refused once that has changed. If
// there may be such patches for a root without an owner, the sharder writes the root before it
// moves the children, and each child that is in place already. Otherwise a late patch could assign
// the root or move a child, and a shard at work would lose sight of the children.
//
// Roots that are released together move together, because while children are listed for some,
// others queue for the next list. So no root waits for others, and 10,000 roots do not need 10,000
// lists.
//
// # Several generations
//
// Grandchildren do not follow, because their controller is not a root. To keep trees such as
// Deployment, ReplicaSet and Pod together, make Deployments and ReplicaSets resources of the ring,
// with Pods as children of ReplicaSets. Give both a [api.Resource].Key that is the same for all of
// a tree: [api.NamespaceKey], or your own KeyFunc of something that they share and that never
// changes, such as a label of the application. Objects of equal keys belong to the same shard, and
// are there when the ring is settled. But each of these roots moves by itself, so while shards come
// and go, a Deployment may be with one shard and its ReplicaSet still with another. Do excludes
// other processes from one of them, not from the tree.
//
// # Weights
//
// A shard gets objects by its weight: [shardlease.Config].Weight, or what an administrator says instead
// ([shardlease.WeightAnnotation]). Weights of 20 and more are met within a tenth, in 93 of 100 rings with 10,000
// objects; chance spreads fewer objects less evenly. A change of one weight moves objects only to or from its shard,
// paced by MaxDrains as any move.
//
// With [Config].Balance, up to 1,000 objects are spread by count: objects that a shard has too many of, or another too
// few, are diverted from their owner on the ring. The sharder stores which, by the hashes of their keys, before it
// assigns any of them. They stay where they are until that shard leaves, or the counts call for another place. Over 40
// rings (TestFewObjects):
//
//	objects, shards   rings with an idle shard   busiest, of its share   moves when a shard joins
//	5, 3              35 %, with 1.25: 0 %       1.69, 1.20              1.4, 1.4
//	10, 5             47 %, 0 %                  1.82, 1.00              1.8, 1.4
//	100, 7            0 %, 0 %                   1.37, 1.16              12, 13
//
// # Objects that make no progress
//
// An object gets no owner if its annotations leave too little room for its record once a drain has
// added the next owner. Its Event states how many bytes must be free: some 350 of 256 KiB
// (TestAnObjectThatCouldNotBeDrainedIsNotAssigned).
//
// An object that cannot be changed, because a policy denies it or for any other reason, does not
// affect other objects. It is retried after pauses of up to half a minute, without a list, and the
// reason is logged once for each cause. A child that cannot be changed delays its root in the same
// way. A patch may also hang, for example because a webhook cannot be reached. A first attempt then
// delays others for a quarter of a second before it leaves its place to them, as up to four times
// Concurrency may. If more hang and one of these fails, the oldest are given up, and their objects
// are retried after half a minute. So 1,000 of them delay others, whose patches are quick, by up to
// 26 s with the default timeout of a webhook, and by 46 s if requests get no answer at all
// (TestFirstAttemptsThatHangDelayOthersForSeconds). Patches that are slow and succeed are not given
// up (TestSlowPatchesAreNotGivenUp). Further attempts delay no others, because a quarter of the
// workers, at least one, take the objects whose last attempt failed after a second or more, and
// only while no others wait. The sharder does this for up to twice PageSize of them, and a shard
// has separate workers for those of the objects that it lets go of.
//
// [Config].Events and [Hooks].OnUnowned report objects that no shard owns. Scans for objects
// without progress become as rare as ScanInterval. Up to 100 of them do not keep the history
// growing, because it then lists the possible owners of each and forgets the memberships that no
// longer matter to other objects, but the ring is not settled until they are with their owners.
//
// The history grows when shards come and go while more objects than those are out of place, or
// while a resource cannot be listed. At half a megabyte, some thousand replaced shards, it forgets
// which objects these shards have owned. From then until the ring is settled, each object without a
// record, even a new one, is taken in turn from each shard of that time that may still live. A plan
// takes as much memory as a ring of all the shards that the history names, 45 kB for each
// of weight 100.
//
// A record with an epoch that its shard never had is invalid, so the sharder asks the possible
// owners of the object, and the shard that it names in case it has begun that epoch meanwhile.
//
// # Objects that crash their shards
//
// An object may end each process that works on it, for example because there is not enough memory.
// So that it does not end all shards, one after another, its record counts the owners in a row that
// have died within 3 minutes after the object was assigned to them. From the second one on, the
// object is held back before its next owner: for 30 s, twice as long each time, and at most 5
// minutes, less a random part of up to a quarter. A Warning Event on the object, a log line and
// [Hooks].OnHeldBack report this. A change of its specification ends the pause at once; for an
// object without generations, such as a ConfigMap, any write does. The count ends when a shard lets
// go of the object in order, or dies later. To end it yourself, remove the annotation with the
// record.
//
// With a supervisor, only the objects that the process worked on when it died count, up to 64.
// Otherwise all objects of a shard count when it stops renewing its Lease, or its container ends,
// so a few others that moved with the one to blame are held back once or twice as well. Up to 100
// objects are held back at a time, because if there are more, other reasons are likelier.
//
// # Objects whose labels are removed
//
// If the ring's labels or annotations are removed from an object again and again, as by a
// reconciler that replaces all labels, the sharder restores them three times within a minute at
// once, then after pauses of a second to five minutes. In the pauses the object has no shard, or
// not its label. The sharder remembers up to 10,000 such objects, and [Hooks].OnUndone reports
// them.
//
// # RBAC
//
// For the sharder, on each resource, including children, cluster-wide or in each namespace:
//
//	get, list, watch, patch
//
// In the namespace of the Leases:
//
//	leases (coordination.k8s.io): get, list, watch, create, update,
//		delete (only of Leases that have been dead for long)
//	configmaps: create; get, update (may be restricted to the name of the history)
//	pods: watch (optional, for the kubelet's report that a shard's container has ended)
//
// With [Config].Events, where the objects are:
//
//	events (events.k8s.io): create, patch
//
// The sharder also needs what leader election needs. A shard needs get, list, watch and patch on
// each resource, including children, and what its work needs; for its Lease see package shardlease.
// If a right is missing at start, [Sharder.Run] returns an error that names it, or logs a warning
// if the objects of another resource can be distributed. When the first request of a replica is
// refused, even one for its Lease, one log line names all of these rights that are missing.
//
// # Costs
//
//	new object                               1 patch; with Children and a Selector, a share in 1
//	                                         list of those that are with no member, for each
//	                                         resource
//	new object, unsettled ring               1 more list, of this object
//	new object, and a shard that may be dead the same, and 2 writes of the history for the first such object
//	new object, with Balance                 1 write of the history, and 2 lists of all objects, for those that
//	                                         are diverted together
//	new child                                0 if it was stamped; otherwise 1 patch, and 1 read of
//	                                         its root
//	object that is no longer selected        1 read and 1 patch; in a ring with a Selector, also 1 read
//	                                         for each object that is deleted, and 1 list for each
//	                                         requirement of the Selector in each scan
//	children of a root that is not selected  1 read of the root after each scan and each move of
//	                                         a root, by up to Concurrency workers; for each child
//	                                         if there are more than 10,000 such roots
//	move between living shards               2 patches; with Children 3, and 1 for each child
//	release or death of a shard              1 patch for each of its objects, and for each of their
//	                                         children
//	move of a root with children             1 more read, of the root
//	change of the sharder                    1 patch for each root without an owner whose children
//	                                         move, and 2 for each of those in place already
//	restart before the Lease is released     0
//	annotations of another object copied     0 if that is its owner; otherwise 1 patch, 2 if the
//	                                         shard sends the object back
//	edit repaired                            1 patch, 2 if the shard sends the object back. After three
//	                                         in a minute for one object the next ones wait, up to 5 min
//	object that cannot be patched            1 read and 1 patch every 30 s; with a child that
//	                                         cannot, 1 list of children as well
//	other object without a record, unsettled 1 patch, and 2 for each living shard that may have
//	ring                                     owned it
//	change of membership                     2 writes of the history, and 1 read of each Lease that
//	                                         it names and that is gone
//	join                                     2 lists of all objects, in pages
//	release or death                         1 list of the moved objects and one of all, in pages
//	batch of moved roots                     for each resource of children, 1 list of those of the
//	                                         shards that they come from, in pages
//	first root that a sharder assigns        for each resource of children, 1 list of all, in pages
//	steady state                             1 list of all objects, in pages, every ScanInterval,
//	                                         and for each resource of children 2 lists of those that
//	                                         are with no member, or marked. These are only children
//	                                         of roots that are not selected
//
// The sharder watches, with metadata only, the objects that are with no member (label selector
// "notin"), those that are drained, and children that have no label or are marked. If there are
// more shards than a URL can name (4 KB), it watches the objects without a label, and the scan
// finds the others. With [Config].WatchAll it watches everything.
//
// # Migration
//
// A controller whose one elected replica works on all objects becomes sharded in two releases, each
// rolled out as usual. In the first one, one replica still works on all objects. It is elected by
// package leaderelection on the same Lease as before, and removes the ring if there is one:
//
//	elector.Run(ctx, func(ctx context.Context) error {
//		if err := s.StripLabels(ctx); err != nil {
//			return err
//		}
//		return controller(ctx)
//	})
//
// In the second one, all replicas are shards, and the sharder is elected on that Lease.
//
// While replicas of both releases run, the leader is either a sharder, or a replica of the first
// release that waits for the shards to end. So no two replicas work on one object, in whatever
// order they are elected, and only objects that are with a shard are worked on. The way back is the
// same: the first release ends the ring, after which any earlier release can be rolled out.
//
// A replica from before the first release ignores shards, so if one is elected while there are
// shards, both work: roll the first release out to all replicas before the second.
//
// To leave nothing behind when a controller is uninstalled, let a program call StripLabels under
// the election when all replicas have ended. When StripLabels has returned nil (the election's Run
// also does when its context ends), delete the Leases and the ConfigMap with the
// label ring.bellwether.dev/name=<ring>.
//
// # Tests
//
// New takes interfaces, so client-go's fake clientsets work; see the example. Package shardertest
// makes a shard on them, even for custom resources, and has a test of an operator as a user would
// write it. The fakes neither detect conflicts nor select, so the sharder checks selectors itself.
//
// # Protocol
//
// An object of a ring called <ring> carries
//
//   - the label shard.bellwether.dev/<ring>: the shard that lists and watches it,
//   - the label drain.bellwether.dev/<ring>, if that shard must let go of it,
//   - the annotation owner.<resource>.bellwether.dev/<ring>: the record of its owner. It names the
//     object's UID, the shard, and the shard's Lease and epoch, and states whether the shard owns
//     the object or has let go of it. <resource> is for example configmaps or replicasets.apps,
//   - the label seal.bellwether.dev/<ring>: a digest of that record.
//
// The record decides which shard may work on the object, the label which one sees it. An epoch is a
// period in which a shard's assignments are valid. It ends when the shard releases its Lease, or
// when the sharder takes the Lease over because the shard has not renewed it for twice its
// duration. When a process has died, a supervisor, or the sharder after the kubelet's report,
// releases its Lease. A shard that restarts before any of this continues in its epoch, and nothing
// moves.
//
//	a new object               the sharder sets label and record
//	a shard joins              drain, and the record names the successor; the shard ends its work
//	                           and hands the object over itself
//	the same, with Children    drain; the shard ends its work, removes both labels and marks the
//	                           record free; the sharder assigns
//	a shard releases its Lease the sharder assigns its objects to others at once
//	a shard dies               after two lease durations the sharder takes its Lease, once; then as
//	                           above
//	a shard gets more weight   it gets objects of the others as if it had joined; with less weight, they
//	                           get some of its objects
//	a shard is drained         its weight is 0: it is not a member, and its objects move as if the others
//	                           had joined a ring without it
//	a shard is idle            nothing in its process works on objects of the ring yet, as its Lease
//	                           states, so it is not a member. The objects of a shard that restarts
//	                           wait for it for a minute
//	a user edits labels        the sharder restores the labels from the record
//	a user removes everything  the sharder asks the shards that may be at work, one after another;
//	                           see below
//
// Every patch names the UID and the version of the object that it was decided on, so the server
// refuses a decision on a stale object. The sharder then reads that object alone and decides again.
//
// An object without a record is new, or a full replacement has removed the record. In a ConfigMap
// ([HistoryName]) the sharder keeps the memberships since the ring last settled, that is, since a
// scan found every object in its place, and adds each new membership before it assigns anything
// under it. In a settled ring an object without a record has one possible owner, and is simply
// assigned. Otherwise the sharder names every other shard that may have owned it as its owner, one
// after another, with a drain, and assigns the object once all of them have let go.
//
// A new object asks no shard, and does not wait for one that may be dead. If a shard would be asked, or
// its owner on the ring has not renewed its Lease for two thirds of its duration, the sharder checks
// whether the object existed at the version before its own. If it did not, it has not been written
// since it was created, so it never had an owner: it goes to its owner among the shards that renew,
// and to the other one when that renews again. Shards are asked if others have written it meanwhile,
// or if it was created so long ago that the API server has compacted that version.
//
// While weights change, one history covers all weights that the same shards have had: any shard that could have been
// the owner by some of them counts as a possible one. A settled ring still remembers a membership in which a living
// shard had another weight, because a drain that was sent then can be carried out late. A diverted object is never
// handed over by a successor (below), so that only what is stored of it can have been its owner.
//
// # A handover to a successor
//
// An object without Children moves between two living shards in two writes. The sharder drains it
// and names the successor in its record. The current shard finishes its work, then names the
// successor as owner in the same patch that would otherwise release the object. In some cases it
// must release the object instead, and the sharder assigns it with a third write: if Children must
// move first, if other shards must be asked, if the shard is not a member of the ring at the time,
// or if others have set the drain label. To reveal the last case, the value of the drain label is
// the seal of the record that names the successor.
//
// If the ring changes meanwhile, the sharder names another successor. That may come too late, or
// the successor's epoch may have ended when it gets the object, in which case the object is out of
// place like any other: a ring is settled only when a scan has found each object with its owner.
// The history names a former member until its epoch is known to have ended, because a drain that
// was sent before may be carried out late.
//
// # Copies
//
// Controllers copy annotations between objects, and users restore old ones. The Deployment
// controller copies those of a Deployment to its ReplicaSets at each sync, and kubectl rollout undo
// puts back what a ReplicaSet has kept. A record that arrives in this way is invalid. A record of
// another object names another UID; if that is of another resource, it is in another annotation,
// and the object's own record stays. An earlier record of the same object does not match the seal,
// which only the sharder and the shards write together with the record. The sharder treats an
// object with such a record as one without, and asks the shards that may be at work on it. It
// removes annotations with records of other objects, unless they are of the object's owners, which
// would copy them again.
package sharder
