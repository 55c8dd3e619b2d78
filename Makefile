# Proves and shows Bellwether on a machine with Go, git and make; the race detector also needs a C compiler. Tools and the
# control plane are built once, into the user's cache directory.

GOLANGCI_LINT_VERSION := v2.15.0
GOTESTSUM_VERSION     := v1.13.0
APIDIFF_VERSION       := v0.0.0-20251219203646-944ab1f22d93
ACTIONLINT_VERSION    := v1.7.12
GOVULNCHECK_VERSION   := v1.9.0
KREW_VERSION          := v0.4.3

CACHE     := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/bellwether
LINT      := $(CACHE)/tools/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
GOTESTSUM := $(CACHE)/tools/gotestsum-$(GOTESTSUM_VERSION)/gotestsum
APIDIFF   := $(CACHE)/tools/apidiff-$(APIDIFF_VERSION)/apidiff
ACTIONLINT  := $(CACHE)/tools/actionlint-$(ACTIONLINT_VERSION)/actionlint
KREWVALIDATE := $(CACHE)/tools/krew-$(KREW_VERSION)/validate-krew-manifest
GOVULNCHECK := $(CACHE)/tools/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck

# internal/e2e/controlplane is left out: it has no tests, and linting it would mean linting Kubernetes.
MODULES := . controllerruntime metrics internal/e2e examples/demo examples/controllerruntime examples/fencer
# What these depend on takes minutes to compile. Only make verify lints and tests them.
HEAVY := internal/dashboards cmd/kubectl-bellwether
# Another kube-apiserver that make suites tests against.
SERVER ?= v1.36.3
# Versions of controller-runtime and client-go that the example is built and tested with besides those of its go.mod.
COMPATIBLE := v0.25.2_v0.37.2
RESULTS := .results
DURATION ?= 10m
# Where the demo draws.
PICTURE ?= $(CURDIR)/$(RESULTS)/sharding.svg

# LAB=0 does without real fence agents and the devices for them, which take Debian packages: their tests are skipped.
LAB ?= 1
export BELLWETHER_LAB = $(LAB)

.PHONY: help test verify lint race e2e e2e-race realnodes simulations mutations compat heavy agents foreign deep upgrades count \
	api fix generate suites bench soak chaos demo playground kubectl picture pictures images \
	controlplane nodes lab vulnerabilities dist krewvalidate release-check release-require golangci-lint gotestsum apidiff actionlint govulncheck
help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 17

# How tools are compiled, and the two commands that everybody runs first: a quarter faster, because a debugger's tables are left
# out and garbage costs less than its collection. Each finds what the others have compiled, linters too. (Without inlining compilers
# are a fifth faster, and tests 40 % slower.)
SPARE   := GOFLAGS="$$GOFLAGS -gcflags=all=-dwarf=false"
QUICKLY := CGO_ENABLED=0 GOGC=800 $(SPARE)

# All modules are tested by one go command, so that nothing is compiled twice and waits overlap. In that workspace they share the
# newest versions that any of them requires, which are those of the control plane. The go.work in the root has the modules that are
# released, with the oldest versions. The packages that take longest begin first. Everything is compiled
# before the first test: programs that tests build would be compiled twice, and tests in real time wait for compilers.
# What does not compile (-e) is for go test to report, which tests the others.
WORKSPACE = export GOWORK="$$PWD/internal/e2e/go.work"
UNITS := ./internal/e2e/memory ./sharder ./fencing ./leaderelection ./endpoints ./... ./controllerruntime/... ./metrics/... \
	./examples/demo/... ./examples/controllerruntime ./examples/controllerruntime/elected ./examples/controllerruntime/operator

test: gotestsum ## what to run before each commit: unit tests, and end-to-end tests on an API server in memory
	@echo "unit tests and end-to-end tests: two minutes on 2 cores; the first time, compiling takes three more." \
		"Packages that have not changed keep their results, unless ARGS=-count=1"
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	@$(WORKSPACE) && export $(QUICKLY) && go list -e -test -export $(UNITS) >/dev/null && \
		BELLWETHER_RUN=$$$$ '$(GOTESTSUM)' --format pkgname \
		--format-hide-empty-pkg --hide-summary=skipped --jsonfile $(RESULTS)/test.json -- \
		-vet=off -ldflags='-s -w' -timeout 40m -p 4 $(ARGS) $(UNITS)
	@echo "Not run: linters, race detector, real control plane, real nodes, simulations, mutations, other versions, fence" \
		"agents, dashboards, kubectl's plugin. make verify runs all of them; make help lists the parts."

verify: ## everything else, part by part; BUDGET=45m runs the first three, then others in turn, until the time is used
	@mkdir -p $(RESULTS) && find $(RESULTS) -name '*.json' ! -name test.json -delete
	@go run ./internal/verify -make '$(MAKE)' $(if $(BUDGET),-budget '$(BUDGET)') \
		-commits "$$(git rev-list --count HEAD 2>/dev/null || echo 0)"; status=$$?; $(MAKE) --no-print-directory count && exit $$status

# The results of make verify are counted together with those of the make test before it.
count: gotestsum
	@echo "== all tests$(if $(filter 0,$(LAB)), BUT THOSE WITH REAL FENCE AGENTS: they are skipped for LAB=0)"
	@'$(GOTESTSUM)' --format none --hide-summary=skipped --raw-command -- cat $(RESULTS)/*.json

lint: golangci-lint actionlint ## linters and go mod tidy, in every module; the workflows
	@echo "linting; with a cold cache this type-checks Kubernetes' client libraries: some 3 minutes on 2 cores"
	@for m in $(MODULES); do ($(call alone,$$m,tidy) && go mod tidy -modfile="$$own.mod" -diff) || exit 1; done
	@'$(ACTIONLINT)' .github/workflows/*.yml
	@$(WORKSPACE) && $(QUICKLY) '$(LINT)' run $(foreach m,$(MODULES),./$(m)/...)
	@$(call write-api,$(RESULTS)/api) && diff -ru docs/api $(RESULTS)/api || \
		{ echo "the public API, or its documentation, is not as in docs/api: if that is meant, make api"; exit 1; }

# The modules of this repository require each other by a version that no one can get before it is released. A go.work has the
# directories instead, and the go command passes over it with -modfile and in go mod tidy. $(call alone,<module>,<name>) goes to a
# module and copies its go.mod and go.sum to $$own.mod and $$own.sum, where the directories replace the versions.
PATH_OF    := github.com/bellwether-k8s/bellwether
NEIGHBOURS := $(PATH_OF) $(addprefix $(PATH_OF)/,controllerruntime metrics examples/fencer internal/e2e)
alone = mkdir -p $(RESULTS) && cd $(1) && export GOWORK=off own='$(CURDIR)/$(RESULTS)/$(2)' && cp go.mod "$$own.mod" && cp go.sum "$$own.sum" && \
	go mod edit $(foreach n,$(NEIGHBOURS),'-replace=$(n)=$(CURDIR)$(n:$(PATH_OF)%=%)') "$$own.mod"

# What the public packages export, one file each. A change of it shows in a review.
define write-api
root="$$PWD" && mkdir -p $(1) && rm -f $(1)/*.txt && for m in . controllerruntime metrics; do (cd $$m && \
	for p in $$(go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./... | grep -vE '/(internal|examples)(/|$$)'); do \
		go doc -all $$p >"$$root/$(1)/$$(echo $${p#github.com/bellwether-k8s/} | tr / -).txt"; done); done
endef

api: ## write what the public packages export to docs/api
	@$(call write-api,docs/api)

# The vulnerabilities are those that code here can reach, in the versions that users get.
vulnerabilities: govulncheck ## known vulnerabilities in what users import and install
	@for m in . controllerruntime metrics cmd/kubectl-bellwether examples/fencer; do \
		(echo "== vulnerabilities $$m" && cd $$m && CGO_ENABLED=0 '$(GOVULNCHECK)' ./...) || exit 1; done

fix: golangci-lint ## let the linters format and mend what they can
	@for m in $(MODULES) $(HEAVY); do ($(call alone,$$m,tidy) && go mod tidy -modfile="$$own.mod" && \
		go mod edit $(NEIGHBOURS:%=-dropreplace=%) "$$own.mod" && cp "$$own.mod" go.mod && cp "$$own.sum" go.sum) && \
		(cd $$m && '$(LINT)' run --fix ./...) || exit 1; done

generate: ## deep copies and manifests of NodeFence and Widget, from their types; the dashboards
	@go generate ./fencing/... ./internal/fencing/...
	@go generate -C examples/controllerruntime ./operator/...
	@go run -C internal/dashboards .

# Usage: $(call gotest,<module>,<name of the result>,<flags and packages of go test>). What go vet finds, make lint has found.
gotest = echo "== test $(2) ($(1))" && mkdir -p $(RESULTS) && (out="$$PWD/$(RESULTS)/$(2).json" && cd $(1) && \
	$(SPARE) '$(GOTESTSUM)' --format pkgname --format-hide-empty-pkg --hide-summary=skipped --jsonfile "$$out" -- -vet=off -ldflags="-s -w" -shuffle=on -timeout 40m $(3))

race: export GOGC := 400
race: gotestsum ## unit tests of what users import, with the race detector and the oldest client-go that works
	@echo "with a cold cache, compiling takes 4 minutes on 2 cores"
	@$(call gotest,.,race,-race ./sharder ./endpoints ./fencing ./leaderelection ./leaderforlife ./...)
	@$(call gotest,metrics,race-metrics,-race ./...)
	@$(call gotest,controllerruntime,race-controllerruntime,-race ./...)

compat: $(COMPATIBLE:%=compat-%) ## module controllerruntime and its example with other versions of controller-runtime and client-go

heavy: golangci-lint gotestsum ## what takes long to compile: dashboards and alerts, by Prometheus' engine; kubectl bellwether; releases of a toy
	@echo "some 2 minutes, as the programs of the dashboards run for so long; with a cold cache 6 on 2 cores"
	@for m in $(HEAVY); do echo "== lint $$m"; ($(call alone,$$m,tidy) && go mod tidy -modfile="$$own.mod" -diff) && (cd $$m && $(QUICKLY) '$(LINT)' run ./...) || exit 1; done
	@$(foreach m,$(HEAVY),$(call gotest,$(m),heavy-$(notdir $(m)),./...) &&) true
	@export BELLWETHER_PROVE=builds && $(call gotest,.,heavy-builds,./internal/release ./internal/process)

# Everything is built and vetted, and what needs no control plane is tested.
compat-%: export GOWORK := off
compat-%: gotestsum
	@echo "== versions $(subst _, and ,$*) of controller-runtime and client-go; with a cold cache some 2 minutes on 2 cores"
	@mkdir -p $(RESULTS)
	@$(call compatible,controllerruntime,module-$@,$*)
	@$(call gotest,controllerruntime,module-$@,-modfile='$(CURDIR)/$(RESULTS)/module-$@.mod' ./...)
	@$(call compatible,examples/controllerruntime,$@,$*)
	@$(call gotest,examples/controllerruntime,$@,-modfile='$(CURDIR)/$(RESULTS)/$@.mod' . ./elected ./operator)

# Usage: $(call compatible,<module>,<name>,<versions>) makes a copy of a go.mod with these versions, and vets the module with it.
compatible = $(call alone,$(1),$(2)) && { go get -modfile="$$own.mod" sigs.k8s.io/controller-runtime@$(firstword $(subst _, ,$(3))) \
		$(foreach m,api apimachinery client-go,k8s.io/$(m)@$(lastword $(subst _, ,$(3)))) 2>"$$own.log" || { cat "$$own.log"; exit 1; }; } && \
	go vet -modfile="$$own.mod" ./...

suites: export BELLWETHER_KUBERNETES := $(SERVER)
suites: gotestsum controlplane ## end-to-end tests against another kube-apiserver: SERVER=v1.36.3
	@echo "end-to-end tests against Kubernetes $(SERVER)"
	@export CGO_ENABLED=0 && $(call endtoend,suites-$(SERVER))

simulations: export BELLWETHER_PROVE := simulations
simulations: gotestsum ## all replicas under faults in virtual time, in a fixed set of schedules; a tenth of them with the race detector
	@$(call gotest,.,simulations,-p 1 -run '^TestSimulated' ./...)
	@$(call gotest,controllerruntime,simulations-controllerruntime,-run '^TestSimulated' .)
	@$(call gotest,.,simulations-race,-race -run '^TestSimulated' ./...)

mutations: export BELLWETHER_PROVE := mutations
mutations: gotestsum ## safeguards removed one by one: a test has to catch each
	@$(call gotest,.,mutations,-p 1 -run 'Mutations.*AreCaught$$' ./...)
	@$(call gotest,controllerruntime,mutations-controllerruntime,-run 'Mutations.*AreCaught$$' .)

# The packages that take longest begin first. Two at a time: of three, on 2 cores, replicas lose Leases of a few seconds.
# Compilers beside them have the same effect, so everything is compiled before. On a machine that is SLOW, which make verify finds
# out, one at a time.
AGENTS   := ./fencejobs ./fencing/devices ./lab/...
DEEP     := ./chaos ./cmd/images ./fencing/storm ./walkthrough
UPGRADED := ./leaderelection ./fencing
E2E      := ./sharder ./fencing ./leaderelection ./endpoints $$(go list ./... | grep -vxF "$$(go list $(AGENTS) $(DEEP) ./realnode/... ./memory)")

# Without the race detector, which takes most of the processors' time, and finds what make test has compiled.
e2e: gotestsum controlplane ## end-to-end tests on a real control plane
	@export CGO_ENABLED=0 && $(call endtoend,$@)

e2e-race: gotestsum controlplane ## the same, with the race detector in tests and programs; examples, and an API server in memory
	@$(call gotest,examples/demo,race-demo,-race ./...)
	@$(call gotest,examples/controllerruntime,race-controllerruntime-example,-race . ./elected ./operator)
	@$(call gotest,internal/e2e,race-memory,-race ./memory)
	@$(call endtoend,$@,-race)

# Usage: $(call endtoend,<name of the result>,<flags>).
endtoend = (cd internal/e2e && export $(SPARE) && go list $(2) -test -export $(E2E) >/dev/null && \
	go list $(2) -export ./... >/dev/null) && \
	$(call gotest,internal/e2e,$(1),$(2) $(if $(SLOW),-p 1 -parallel 4,-p 2 -parallel 6) -skip '^Test(Upgrade|Foreign)' $(E2E)) && \
	$(call gotest,examples/controllerruntime,$(1)-controllerruntime,$(2) ./e2e)

# Real nodes run alone: dozens of containers that start at once have others lose their Leases.
realnodes: gotestsum controlplane nodes ## end-to-end tests on nodes with a real kubelet
	@$(call gotest,internal/e2e,realnodes,-race -p 1 -parallel 6 ./realnode ./realnode/doomed)

agents: gotestsum controlplane $(if $(filter 0,$(LAB)),,lab) ## end-to-end tests with real fence agents, BMCs and power distribution units
	@$(call gotest,internal/e2e,agents,-race -p 1 -parallel 6 $(AGENTS))

foreign: gotestsum controlplane nodes ## controllers that others have published, unmodified, behind bellwether run --ring
	@echo "builds sample-controller and KubeRay's operator once: some 8 minutes on 2 cores; what cannot be had is NOT TESTED"
	@! command -v npm >/dev/null || npm install --silent --prefix '$(CACHE)/client-node' @kubernetes/client-node@1 || true
	@export CGO_ENABLED=0 CLIENT_NODE='$(CACHE)/client-node' && $(call gotest,internal/e2e,foreign,-p 1 -run '^TestForeign' ./anycontroller ./realnode/foreign)

deep: gotestsum controlplane nodes $(if $(filter 0,$(LAB)),,lab) ## chaos, storms of failures, all images twice, the walkthrough
	@$(call gotest,internal/e2e,deep,-race -p 1 -parallel 6 $(DEEP))

upgrades: gotestsum controlplane ## earlier commits beside this one
	@$(call gotest,internal/e2e,upgrades,-race -run '^TestUpgrade' $(UPGRADED))

controlplane: ## build etcd, Kubernetes' servers and KWOK, once
	@cd internal/e2e && $(QUICKLY) go run ./cmd/prepare

nodes: ## install the Debian packages of real nodes, where root and apt-get can; build kubelet and kube-proxy, once
	@cd internal/e2e && $(QUICKLY) go run ./cmd/nodes

lab: ## install the Debian packages of fence agents and of devices for them, if that takes no more than root and apt-get
	@cd internal/e2e && $(QUICKLY) go run ./cmd/lab

# Four minutes for what shows that a warm cache alone does not keep a process through an outage.
BENCH_LENGTHY := BenchmarkOutage/client-go-warm

bench: controlplane $(if $(filter 0,$(LAB)),,lab) ## benchmarks against floors and client-go's elector, for benchstat
	@echo "== bench in memory, against floors and peers: about a minute"
	@go test -run '^$$' -bench . -benchmem ./...
	@echo "== bench on a real control plane, against client-go's elector and bare loops: some 39 minutes; leave the machine alone"
	@cd internal/e2e && go test -run '^$$' -bench . -skip '$(BENCH_LENGTHY)' -benchtime 1x -timeout 40m -p 1 ./leaderelection ./sharder ./anycontroller ./fencing/devices

soak: controlplane $(if $(filter 0,$(LAB)),,lab) ## repeat simulations, then end-to-end tests, for DURATION (10m) each, and count; then chaos for as long
	@BELLWETHER_SOAK=$(DURATION) go test -count=1 -timeout 0 -run '^TestSimulated' ./endpoints ./internal/fencing/statemachine ./leaderelection ./leaderforlife ./shardlease ./sharder
	@cd internal/e2e/leaderelection && BELLWETHER_SOAK=$(DURATION) go test -race -count=1 -shuffle=on -parallel 10 -timeout 0
	@cd internal/e2e/leaderforlife && BELLWETHER_SOAK=$(DURATION) go test -race -count=1 -shuffle=on -parallel 6 -timeout 0
	@cd internal/e2e/endpoints && BELLWETHER_SOAK=$(DURATION) go test -race -count=1 -shuffle=on -parallel 6 -timeout 0
	@cd internal/e2e/fencing && BELLWETHER_SOAK=$(DURATION) go test -race -count=1 -shuffle=on -parallel 10 -timeout 0
	@cd internal/e2e/fencing/devices && BELLWETHER_SOAK=$(DURATION) go test -race -count=1 -shuffle=on -timeout 0
	@cd internal/e2e/sharder && BELLWETHER_SOAK=$(DURATION) go test -race -count=1 -shuffle=on -parallel 6 -timeout 0
	@$(MAKE) --no-print-directory chaos

chaos: controlplane ## four shards on a real control plane while everything goes wrong for DURATION (10m), and two referees; then for as long each of two foreign programs
	@cd internal/e2e/chaos && BELLWETHER_SOAK=$(DURATION) go test -count=1 -run '^TestChaos$$' -v -timeout 0
	@cd internal/e2e/anycontroller && BELLWETHER_SOAK=$(DURATION) go test -count=1 -run '^TestForeignChaos$$' -v -timeout 0

demo: ## a tour: leaders, shards and servers that fail; CHAPTER=sharding plays only that; CONTROLPLANE=real: on etcd and Kubernetes, machines too
	@echo "building the demo; with a cold cache a minute or two"
	@cd examples/demo && $(QUICKLY) go run . -picture '$(PICTURE)' $(if $(CHAPTER),-chapter '$(CHAPTER)') $(if $(CONTROLPLANE),-controlplane '$(CONTROLPLANE)') $(ARGS)

playground: ## an API server to try things on, until Ctrl-C; CONTROLPLANE=real: etcd, Kubernetes and nodes in pretence; NODES=real: nodes that run Pods
	@echo "building the playground; with a cold cache a minute or two"
	@cd internal/e2e && $(QUICKLY) go run ./cmd/playground $(if $(filter real,$(CONTROLPLANE)),-real) $(if $(filter real,$(NODES)),-nodes)

kubectl: ## kubectl and its plugin bellwether, in the directory bin
	@echo "building kubectl and its plugin into bin; with a cold cache some minutes"
	@cd internal/kubectl && export GOWORK=off && version=$$(go list -m -f '{{.Version}}' k8s.io/kubectl | sed s/v0/v1/) && \
		go build -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$$version" -o ../../bin/kubectl .
	@cd cmd/kubectl-bellwether && go build -ldflags="-s -w" -o ../../bin/kubectl-bellwether .

picture: ## the picture in the README, from a run of the demo's chapter about sharding
	@$(MAKE) --no-print-directory demo CHAPTER=sharding PICTURE='$(CURDIR)/docs/sharding.svg'

pictures: ## the pictures of the dashboards in docs, from a run of programs that serve metrics
	@echo "building; with a cold cache some 4 minutes; then the programs run for a minute"
	@go run -C internal/dashboards . -pictures '$(CURDIR)/docs'

images: ## images of all commands and examples for amd64 and arm64, without a container engine, in .results/images
	@echo "building images; with a cold cache some minutes"
	@rm -rf $(RESULTS)/images && mkdir -p $(RESULTS)
	@go run -C internal/e2e ./cmd/images -root '$(CURDIR)' -output '$(CURDIR)/$(RESULTS)/images' -version '$(VERSION)' \
		-revision $$(git describe --always --dirty --abbrev=40 --exclude='*') -created $$(git log -1 --format=%cI)

dist: krewvalidate ## archives of bellwether and its plugin of kubectl for VERSION (v0.1.0), with checksums, and images, in .results
	@test -n '$(VERSION)' || { echo "make dist needs VERSION=v0.1.0"; exit 1; }
	@echo "building for linux and darwin, amd64 and arm64; with a cold cache some 10 minutes on 2 cores"
	@rm -rf $(RESULTS)/dist && mkdir -p $(RESULTS)
	@go run -C internal/e2e ./cmd/dist -root '$(CURDIR)' -output '$(CURDIR)/$(RESULTS)/dist' -version '$(VERSION)' \
		-revision $$(git describe --always --dirty --abbrev=40 --exclude='*') -created $$(git log -1 --format=%cI)
	@'$(KREWVALIDATE)' -manifest $(RESULTS)/dist/bellwether.yaml -skip-install
	@$(MAKE) --no-print-directory images VERSION='$(VERSION)'

release-check: apidiff ## what a release of VERSION (v0.1.0) needs: changelog, modules by version, API; RELEASING.md has the steps
	@go run ./internal/release -version '$(VERSION)' -apidiff '$(APIDIFF)'

# Consumers get the versions that these go.mod require. Here, each go.work has the tree for them.
release-require: ## have each go.mod require the modules of this repository at VERSION, and name its images in manifests and pages
	@sed -i -E 's#^(\s+$(PATH_OF)(/[a-z0-9/-]+)?) v[0-9.]+#\1 $(VERSION)#' $$(git ls-files '*go.mod' '*go.work')
	@was=$$(sed -n 's/^const Version = "\(.*\)"/\1/p' internal/e2e/image/programs.go) && sed -i -E "s#([@:=\"])$$was\b#\1$(VERSION)#g; s#^const Version = .*#const Version = \"$(VERSION)\"#" \
		internal/e2e/image/programs.go $$(git ls-files '*.yaml' '*Dockerfile' '*.md' ':!CHANGELOG.md')

# Not files for make, whose names cannot have spaces.
golangci-lint:
	@test -x '$(LINT)' || { echo "building golangci-lint $(GOLANGCI_LINT_VERSION), once: about 2 minutes on 2 cores" && \
		$(QUICKLY) GOBIN='$(dir $(LINT))' go install -ldflags='-s -w' github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION); }

gotestsum:
	@test -x '$(GOTESTSUM)' || { echo "building gotestsum $(GOTESTSUM_VERSION), once: some seconds" && \
		$(QUICKLY) GOBIN='$(dir $(GOTESTSUM))' go install -ldflags='-s -w' gotest.tools/gotestsum@$(GOTESTSUM_VERSION); }

apidiff:
	@test -x '$(APIDIFF)' || { echo "building apidiff $(APIDIFF_VERSION), once: some seconds" && \
		$(QUICKLY) GOBIN='$(dir $(APIDIFF))' go install -ldflags='-s -w' golang.org/x/exp/cmd/apidiff@$(APIDIFF_VERSION); }

actionlint:
	@test -x '$(ACTIONLINT)' || { echo "building actionlint $(ACTIONLINT_VERSION), once: some seconds" && \
		$(QUICKLY) GOBIN='$(dir $(ACTIONLINT))' go install -ldflags='-s -w' github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION); }

govulncheck:
	@test -x '$(GOVULNCHECK)' || { echo "building govulncheck $(GOVULNCHECK_VERSION), once: some seconds" && \
		$(QUICKLY) GOBIN='$(dir $(GOVULNCHECK))' go install -ldflags='-s -w' golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION); }

krewvalidate:
	@test -x '$(KREWVALIDATE)' || { echo "building krew's validation $(KREW_VERSION), once: some seconds" && \
		$(QUICKLY) GOBIN='$(dir $(KREWVALIDATE))' go install -ldflags='-s -w' sigs.k8s.io/krew/cmd/validate-krew-manifest@$(KREW_VERSION); }
