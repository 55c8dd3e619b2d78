package image

// Version is the tag of the images in the manifests: what the modules of this repository require of each other.
const Version = "v0.1.0"

// Reference is the program's image in the manifests.
func (p Program) Reference() string { return p.Image + ":" + Version }

// Programs returns those that images are made of: all commands, and the examples that are deployed.
// Names and files are those in the examples' manifests and Dockerfiles.
func Programs() []Program {
	return []Program{
		{
			"bellwether", "cmd/bellwether", "bellwether",
			"bellwether run: leader election for any program",
		},
		{
			"fencejob", "fencing/fencejobs/fencejob", "fencejob",
			"Runs one fence agent in a Pod. The image has no agents.",
		},
		{
			"fencer", "examples/fencer", "fencer",
			"Fences lost nodes, by fence agents in Jobs. The image has no agents.",
		},
		{
			"example-daemon", "examples/leaderelection", "daemon",
			"Example of a daemon with several replicas, one at work",
		},
		{
			"example-leader", "examples/leaderforlife", "daemon",
			"Example of a daemon whose leader stays one until it ends",
		},
		{
			"example-server", "examples/endpoints", "server",
			"Example of a server that publishes itself",
		},
		{
			"example-sharding", "examples/sharding", "controller",
			"Example of a sharded controller",
		},
		{
			"example-controllerruntime", "examples/controllerruntime", "controller",
			"Example of a sharded controller made with controller-runtime",
		},
		{
			"example-operator", "examples/controllerruntime/operator", "operator",
			"Example of a sharded operator of a custom resource, made with controller-runtime",
		},
	}
}
