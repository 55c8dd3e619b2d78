package main

func rings() board {
	const of, lease, shard = "bellwether_sharder_", "bellwether_shardlease_", "bellwether_shard_"
	return board{
		name: "rings", title: "Bellwether: rings", found: lease + "held",
		description: "The shards of sharded controllers, their objects, and how these move.",
		rows: []row{
			{"Shards", []panel{
				present("Shards", "Members of the ring, and processes that hold a shard lease.", count,
					query{"max by (namespace, " + group + ") (" + of + "members{})", legend() + " members"},
					query{"sum by (namespace, " + group + ") (" + lease + "held{})", legend() + " hold a lease"}),
				graph("Objects of each shard", "At the last scan.", count,
					query{"max by (" + group + ", shard) (" + of + "shard_objects{})", legend("shard")}),
				graph("Objects", "All of the last scan, and those that are with their owner.", count,
					query{"max by (" + group + ") (" + of + "objects{})", legend() + " all"},
					query{"max by (" + group + ") (" + of + "placed_objects{})", legend() + " with their owner"}),
				graph("Not settled", "From a change of the membership until every object is with its owner.",
					yesOrNo,
					query{"max by (" + group + ") (" + of + "unsettled{})", legend()}),
				graph("Processes that hold a lease", "And those that wait for another one of their name.", count,
					query{lease + "held{}", legend("instance")},
					query{lease + "waiting{}", legend("instance") + " waits"}),
				graph("Resources in trouble", "They cannot be listed or watched, or are not served.", yesOrNo,
					query{
						"max by (" + group + ", resource, verb) (" + of + "resource_trouble{})",
						legend("verb", "resource"),
					}),
			}},
			{"Moves", []panel{
				duration("Time until settled", "From a change of the membership until every object is with its owner.",
					of+"settle_duration_seconds", rarely),
				rate("Changes of objects", "By what for. Conflicts are nothing to worry about.",
					of+"patches_total", "verb", "result"),
				duration("Duration of changes", "Of the requests.", of+"patch_duration_seconds", often, "verb"),
				rate("Objects without an owner", "On average, as seen by scans.",
					of+"unplaced_object_seconds_total"),
				duration("Scans", "Reads of all objects.", of+"scan_duration_seconds", rarely),
				duration("Throttled", "Time that requests have waited for the client's own rate limit.",
					of+"throttled_seconds", often),
			}},
			{"Shards let go", []panel{
				rate("Objects let go", "By shards, when they are asked to.", shard+"drains_total", "result"),
				duration("Time to let go", "From the drain until the work has ended.",
					shard+"drain_duration_seconds", rarely),
				increase("Overdue", "Objects that a living shard does not let go of.", of+"overdue_total"),
				increase("Unowned", "Objects that no living shard has owned for long.", of+"unowned_total"),
				increase("Held back", "Objects that had shards that have crashed one after another.",
					of+"held_back_total"),
				increase("Labels removed", "Waits before labels are set again that others remove again and again.",
					of+"undone_total"),
				increase("Labels by mistake", "Objects that a shard has sent back.",
					shard+"bounces_total", "result"),
				increase("Refused work", "The object is another shard's, or not proved to be this one's.",
					shard+"refusals_total", "reason"),
			}},
			{"Deaths", []panel{
				increase("Dead shards", "They have ended without a release.", of+"taken_total"),
				increase("Storms", "At least half of the shards have expired together.", of+"storms_total"),
				increase("Collected Leases", "Of shards that were dead for long.", of+"collected_total"),
			}},
			{"Shard leases", []panel{
				rate("Renewals", "Of shard leases.", lease+"renewals_total", "result"),
				graph("Requests fail", "For how long a shard has not been able to take or renew its Lease.",
					seconds, query{lease + "failing_seconds{}", legend("instance")}),
				duration("Duration of renewals", "Slow ones are a slow API server, or throttled requests.",
					lease+"renewal_duration_seconds", often),
				graph("Age of the Lease", "Since the last renewal of a shard.", seconds, query{
					age(lease+"last_renewal_timestamp_seconds") + " * (" + lease + "held{} == 1)",
					legend("instance"),
				}),
				increase("Terms", "That have begun.", lease+"terms_total", "instance"),
			}},
		},
	}
}
