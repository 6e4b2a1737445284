package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"conclave/activities/s3store"
	boxes "conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/worker/cluster"
)

// table lists the checks in order.
var table = []struct {
	name  string
	check func(*patient, context.Context) check
}{
	{"versions", (*patient).examineVersions},
	{"temporal", (*patient).examineTemporal},
	{"bucket", (*patient).examineBucket},
	{"clock", (*patient).examineClock},
	{"models", (*patient).examineModels},
	{"sandbox", (*patient).examineSandbox},
}

func checkNames() (all []string) {
	for _, examine := range table {
		all = append(all, examine.name)
	}
	return all
}

// Temporal 1.28 is the oldest server with update-with-start, which retry uses.
const minMajor, minMinor = 1, 28

// tooOld reports whether a server's version is below the minimum. A version in another format is
// not.
func tooOld(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < minMajor || major == minMajor && minor < minMinor
}

func (p *patient) examineVersions(ctx context.Context) check {
	detail := p.own.Conclave + "; Temporal SDK " + p.own.SDK
	if p.refused != nil {
		return good(detail + "; the server's version is unknown")
	}
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	info, err := p.conn.Client.WorkflowService().GetSystemInfo(limited, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return failedCheck(fmt.Errorf("ask for the version of the Temporal server: %w", err), "check --address and TEMPORAL_*")
	}
	detail += ", server " + info.GetServerVersion()
	if tooOld(info.GetServerVersion()) {
		return bad(detail, fmt.Sprintf("conclave needs Temporal %d.%d or newer: update the server", minMajor, minMinor))
	}
	return good(detail)
}

func (p *patient) examineTemporal(ctx context.Context) check {
	if p.refused != nil {
		return failedCheck(p.refused, "check --address and TEMPORAL_*, or leave them out to use the local stack")
	}
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	_, err := p.conn.Client.WorkflowService().DescribeNamespace(limited, &workflowservice.DescribeNamespaceRequest{Namespace: p.conn.Options.Namespace})
	if err != nil {
		return failedCheck(err, "check --namespace, and the permissions of the API key or certificate")
	}
	detail := p.conn.Options.HostPort + ", namespace " + p.conn.Options.Namespace
	if !p.conn.Cluster {
		return good(detail + ", the local stack of " + p.conn.Target.DataDir)
	}
	queue, err := p.conn.Client.DescribeTaskQueue(limited, p.conn.Queue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return failedCheck(err, "check the permissions of the API key or certificate")
	}
	if len(queue.GetPollers()) == 0 {
		c := good(detail + ", no worker on the task queue " + p.conn.Queue + " in the last minutes")
		c.Remedy = "sessions wait until a worker runs: start one with `conclave worker`"
		return c
	}
	return good(detail + ", " + cli.Plural(len(queue.GetPollers()), "worker") + " on the task queue " + p.conn.Queue)
}

func (p *patient) examineBucket(ctx context.Context) check {
	store, missing := p.storeOrMissing()
	if store == nil {
		return missing
	}
	if err := cluster.Probe(ctx, store); err != nil {
		return failedCheck(err, "check AWS_* and --bucket")
	}
	return good(store.URL("") + " can be read and written, and refuses a second writer")
}

// maxLead is the clock difference above which the times of sessions are misleading. Stores refuse
// requests from about 15 minutes.
const maxLead = time.Minute

func (p *patient) examineClock(ctx context.Context) check {
	store, missing := p.storeOrMissing()
	if store == nil {
		missing.Detail += ", so there is no clock to compare with"
		return missing
	}
	lead, err := store.Lead(ctx)
	if err != nil {
		return failedCheck(err, "check AWS_* and --bucket")
	}
	lead = lead.Round(time.Second)
	switch {
	case lead.Abs() <= 2*time.Second:
		return good("agrees with that of the bucket")
	case lead.Abs() <= maxLead:
		return good(fmt.Sprintf("%s from that of the bucket", lead.Abs()))
	case lead > 0:
		return bad(fmt.Sprintf("%s ahead of that of the bucket", lead), "synchronize the clock of this machine, for example with chrony")
	default:
		return bad(fmt.Sprintf("%s behind that of the bucket", -lead), "synchronize the clock of this machine, for example with chrony")
	}
}

// storeOrMissing returns the store, or the outcome of a check that needs it.
func (p *patient) storeOrMissing() (*s3store.Store, check) {
	if p.conn != nil && p.conn.Store != nil {
		if store, ok := p.conn.Store.(*s3store.Store); ok {
			return store, check{}
		}
	}
	if p.storeless != nil {
		return nil, failedCheck(p.storeless, "check AWS_* and --bucket")
	}
	return nil, bad("no bucket is named", "name the workers' bucket with --bucket, its credentials and endpoint with AWS_*")
}

func (p *patient) examineModels(ctx context.Context) check {
	r, err := checkTeam(ctx, p.cli, "", p.flags.timeout)
	if err != nil {
		return failedCheck(err, "check --config and --worker-config")
	}
	if r.OK {
		able := "sessions can use " + cli.Plural(len(r.Models), "model")
		return good(strings.Join(append([]string{able}, r.Faults(true)...), "\n"))
	}
	return bad(strings.Join(r.Faults(false), "\n"), "`conclave models check` has more; --offline runs without a model")
}

func (p *patient) examineSandbox(ctx context.Context) check {
	o, err := checkFlags{settings: p.cli.WorkerConfig}.attackOptions(p.cli)
	if err != nil {
		return failedCheck(err, "check the sandbox of --worker-config")
	}
	o.Host = boxes.Probe(ctx)
	if o.Level == boxes.Off && o.Host.Level != boxes.Off {
		return bad("sandbox.level is off: commands of agents can do whatever the worker can", "set sandbox.level to "+string(o.Host.Level)+", which this host offers")
	}
	p.cli.Infof("attacking the sandbox; this takes about half a minute")
	r, err := attackSandbox(ctx, o)
	if lacking, ok := errors.AsType[*boxes.LevelError](err); ok {
		return p.levelLacking(lacking)
	}
	if err != nil {
		return failedCheck(fmt.Errorf("attack the sandbox: %w", err), "run `conclave sandbox check`")
	}
	return judgeAttacks(o, r)
}

// levelLacking returns the outcome for a host without the required level, which only agents with a
// shell need.
func (p *patient) levelLacking(e *boxes.LevelError) check {
	detail := fmt.Sprintf("this host offers level %s, and %s is required", e.Given, e.Required)
	remedy := strings.Join(e.Missing, "\n")
	if runtime.GOOS != "linux" {
		remedy = "run agents with a shell in a Linux virtual machine or container"
	}
	t, _, err := teams.Load(p.cli, config.Local, false)
	if err == nil && p.cli.WorkerConfig == "" && !slices.ContainsFunc(t.Agents, func(a config.Agent) bool { return a.Tools.Shell.On() }) {
		c := good(detail + "; no agent of the team has a shell")
		c.Remedy = remedy
		return c
	}
	return bad(detail, remedy)
}

func judgeAttacks(o attack.Options, r SandboxReport) check {
	if got := r.Failed(); len(got) > 0 {
		return bad(fmt.Sprintf("level %s does not stop %s", o.Level, strings.Join(got, ", ")), "`conclave sandbox check` has the evidence; do not run agents with a shell on this host")
	}
	detail := fmt.Sprintf("level %s: %d of %s stopped", o.Level, r.Stopped, cli.Plural(len(r.Attacks), "attack"))
	if r.Known > 0 {
		detail += fmt.Sprintf(", %d are known to be open at this level", r.Known)
	}
	if r.NotTried > 0 {
		detail += fmt.Sprintf(", %d cannot be tried here", r.NotTried)
	}
	return good(detail)
}

// reachTimeout is the maximum duration of one request to Temporal.
const reachTimeout = 8 * time.Second

// patient is the installation to check.
type patient struct {
	cli   *cli.CLI
	own   Versions
	flags flags

	conn      *cli.Connection // nil if neither Temporal nor the store could be opened
	refused   error           // the failed connection to Temporal
	storeless error           // the failure to open the store
}

// openPatient connects to Temporal and the store. It fails only for invalid flags or environment
// variables.
func openPatient(ctx context.Context, c *cli.CLI, v Versions, f flags) (*patient, error) {
	p := &patient{cli: c, own: v, flags: f}
	t, err := c.Target()
	if err != nil {
		return nil, err
	}
	c.Infof("connecting %s", t)
	p.conn, p.refused = c.Connect(ctx, t, slog.New(slog.DiscardHandler))
	if p.refused == nil {
		return p, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !t.Cluster {
		p.storeless = errors.New("the local stack does not run")
		return p, nil
	}
	if c.Bucket == "" && c.Prefix != "" {
		return nil, p.refused
	}
	if c.Bucket != "" {
		p.conn, p.storeless = c.ConnectStore(ctx)
	}
	if p.storeless != nil { // the reason why Connect failed
		storeless := *c
		storeless.Bucket, storeless.Prefix = "", ""
		p.conn, p.refused = storeless.Connect(ctx, t, slog.New(slog.DiscardHandler))
	}
	return p, nil
}

func (p *patient) close() {
	if p.conn != nil {
		p.conn.Close()
	}
}

func good(detail string) check { return check{OK: true, Detail: detail} }

func bad(detail, remedy string) check { return check{Detail: detail, Remedy: remedy} }

// failedCheck converts an error to a check. Errors end with their remedy, after the last semicolon;
// the given remedy is for errors without one.
func failedCheck(err error, remedy string) check {
	if untrusted, ok := errors.AsType[*teams.UntrustedError](err); ok { // its semicolons may come from a foreign file
		return bad(untrusted.Reason(), untrusted.Remedy())
	}
	said := cluster.Explain(err)
	if i := strings.LastIndex(said, "; "); i >= 0 {
		return bad(said[:i], said[i+len("; "):])
	}
	return bad(said, remedy)
}
