package main

func elections() board {
	const of = "bellwether_leaderelection_"
	return board{
		name: "elections", title: "Bellwether: elections", found: of + "leading",
		description: "Who leads, how old the Lease is, and how long there was no leader.",
		rows: []row{
			{"Leaders", []panel{
				present("Leaders", "One, of each election. 0: no replica leads.", count,
					query{"sum by (namespace, " + group + ") (" + of + "leading{})", "{{namespace}} " + legend()}),
				graph("Who leads", "A process that was stopped reports that it leads until it wakes.", count,
					query{of + "leading{}", legend("instance")}),
				graph("Age of the Lease", "Since the leader's last renewal. Its process ends after 12 s, by default.",
					seconds, query{
						age(of+"last_renewal_timestamp_seconds") + " * (" + of + "leading{} == 1)",
						legend("instance"),
					}),
			}},
			{"Changes", []panel{
				increase("Changes of the leader", "As each replica has seen them.",
					of+"leader_changes_total", "instance"),
				increase("Terms that have ended",
					"Released, or lost. Not of a process that has ended before it was scraped again.",
					of+"terms_total", "end"),
				duration("Time without a leader", "After a release, and after a death.",
					of+"vacancy_seconds", rarely, "after"),
			}},
			{"Renewals", []panel{
				rate("Renewals", "Of the leaders. With errors the API server is slow or away.",
					of+"renewals_total", "result"),
				graph("Requests fail", "For how long a replica has not been able to follow, take or renew its Lease.",
					seconds, query{of + "failing_seconds{}", legend("instance")}),
				duration("Duration of renewals", "Slow ones are a slow API server, or throttled requests.",
					of+"renewal_duration_seconds", often),
			}},
			{"Leaders for life", []panel{
				present("Leaders for life", "One, of each election.", count, query{
					"sum by (namespace, " + group + ") (bellwether_leaderforlife_leading{})",
					"{{namespace}} " + legend(),
				}),
				graph("Waiting for", "Pods whose end is not proved yet.", count,
					query{`bellwether_leaderforlife_waiting_for{}`, legend("instance")}),
				graph("Requests fail", "For how long a process has not been able to follow or create its Lease.",
					seconds, query{`bellwether_leaderforlife_failing_seconds{}`, legend("instance")}),
			}},
		},
	}
}
