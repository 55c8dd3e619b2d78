package main

func fencing() board {
	const of = "bellwether_fencing_"
	return board{
		name: "fencing", title: "Bellwether: fencing", found: of + "fences",
		description: "Lost nodes, what was done, and whether the others could be fenced.",
		rows: []row{
			{"Now", []panel{
				present("Fences", "By phase. A fence in GivenUp waits for a human.", count,
					query{"max by (phase) (" + of + "fences{})", "{{phase}}"}),
				present("Nodes", "Checked within the last hour, by whether they could be fenced.", count,
					query{"max by (ready) (" + of + "checked_nodes{})", "ready: {{ready}}"}),
				graph("No usable configuration", "Then no node can be fenced.", yesOrNo,
					query{"max by (job) (" + of + "configuration_unusable{})", "{{job}}"}),
			}},
			{"Fences", []panel{
				increase("Steps", "Of all fences.", of+"transitions_total", "transition"),
				increase("Waiting for an operator", "Fences that started waiting for operator action, by reason.",
					of+"holds_total", "reason"),
				graph("Blocked", "Fences that are blocked now, by the reason.", count,
					query{"max by (reason) (" + of + "blocked_fences{})", "{{reason}}"}),
				rate("Decisions", "Of the policy.", of+"decisions_total", "verdict", "reason"),
				duration("Time until workloads were free", "Since the node failed.",
					of+"release_duration_seconds", rarely),
				duration("Time until the node was back", "Since it failed.",
					of+"recovery_duration_seconds", rarely),
			}},
			{"Devices", []panel{
				increase("Commands", "ok is no proof that anything was switched.",
					of+"commands_total", "action", "result"),
				duration("Duration of commands", "Of fence agents.",
					of+"command_duration_seconds", rarely, "action"),
				rate("Readings", "unknown: the device does not answer.", of+"readings_total", "power"),
				duration("Duration of readings", "Of fence agents.", of+"reading_duration_seconds", rarely),
				increase("Checks", "Of the devices of a node, while nothing is wrong.",
					of+"checks_total", "result"),
				increase("Commissions", "error: nothing was proved.", of+"commissions_total", "result"),
			}},
		},
	}
}
