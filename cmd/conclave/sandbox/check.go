package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/text"
	"conclave/worker"
	"conclave/worker/settings"
)

// Commands returns `conclave sandbox`, and the hidden command that package attack executes
// for each part of an attack.
func Commands(c *hall.CLI) []*cobra.Command {
	cmd := &cobra.Command{
		Use:     "sandbox",
		Short:   "The sandbox of the agents' shell: check",
		Long:    "Check the sandbox in which agents run commands on this host.",
		Example: "  conclave sandbox check",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fmt.Errorf("unknown command %q for %q; there is `conclave sandbox check`", args[0], cmd.CommandPath())
		},
	}
	cmd.AddCommand(checkCommand(c))
	return []*cobra.Command{cmd, {
		Use: attack.ChildCommand, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return hall.Exit(attack.RunChild(args, c.Stdin, c.Stdout))
		},
	}}
}

// checkFlags are the flags of sandbox check besides the common ones.
type checkFlags struct {
	level    string
	only     []string
	settings string // path of the worker's configuration
}

func checkCommand(c *hall.CLI) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Report the sandbox of this host, and attack it",
		Long: `Report the sandbox level of this host, the parts it lacks for the level full, and
how to get them. Then run attacks in a sandbox and observe from outside which of
them succeed. The attacks are bounded and harmless even if nothing stops them, and
take a minute or two.

The level is that of --level, else of the worker's configuration, else full. The
attackers can use the toolchains of the configuration; a toolchain directory with
more than programs is refused. Attacks that the level cannot stop are marked as
known; docs/sandbox.md explains them.

Exit code 0: this host offers the level, and every attack that the level promises
to stop was stopped. 1: it does not offer the level; no attack was run. 2: an
attack got through. 4: interrupted.`,
		Example: `  conclave sandbox check
  conclave sandbox check --level landlock
  conclave sandbox check --only tcp,udp,forkbomb --json
  conclave sandbox check --worker-config worker.yaml`,
		Args: hall.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("only") {
				for i := range f.only {
					f.only[i] = strings.TrimSpace(f.only[i])
				}
				if len(f.only) == 0 {
					return errors.New("--only names no attack; leave it out to run all of them")
				}
			}
			return check(cmd.Context(), c, f)
		},
	}
	cmd.Flags().StringVar(&f.level, "level", "", "required `LEVEL`: gvisor, full, landlock or off (default from --worker-config, else full)")
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "run only the attacks of these `NAMES`")
	cmd.Flags().StringVar(&f.settings, "worker-config", "", "the operator's configuration `FILE`, for its sandbox.level and sandbox.toolchains")
	return cmd
}

func check(ctx context.Context, c *hall.CLI, f checkFlags) error {
	o, err := f.options(c)
	if err != nil {
		return err
	}
	o.Host = sandbox.Probe(ctx)
	if err := showHost(c, describe(o)); err != nil {
		return err
	}
	o.Each = func(a attack.Result) { showAttack(c, a) }
	result, err := Attack(ctx, o)
	_, unavailable := errors.AsType[*sandbox.LevelError](err)
	switch {
	case unavailable && c.Scripted():
		return errors.Join(c.PrintJSON(result), err)
	case err != nil && len(result.Attacks) == 0:
		return err
	case ctx.Err() != nil:
		return hall.Exitf(hall.ExitInterrupted, "interrupted after %d attacks; all their traces are removed", len(result.Attacks))
	case err != nil:
		return hall.Exitf(hall.ExitNoAnswer, "run the attacks: %w", err)
	}
	if err := showTotal(c, result); err != nil {
		return err
	}
	if failed := result.Failed(); len(failed) > 0 {
		return hall.Exitf(hall.ExitNoAnswer, "level %s does not stop all that it promises on this host: %s", o.Level, strings.Join(failed, ", "))
	}
	return nil
}

// Options returns the attacks for a worker configuration, or for the default level if there is no
// file.
func Options(c *hall.CLI, settings string) (attack.Options, error) {
	return checkFlags{settings: settings}.options(c)
}

// Attack executes the attacks on o.Host.
func Attack(ctx context.Context, o attack.Options) (Report, error) {
	r := describe(o)
	attacks, err := attack.Run(ctx, o)
	if _, unavailable := errors.AsType[*sandbox.LevelError](err); !unavailable {
		r.Attacks = append(r.Attacks, attacks...)
	}
	r.count()
	return r, err
}

// options returns the options from the worker configuration. --level overrides its level.
func (f checkFlags) options(c *hall.CLI) (attack.Options, error) {
	o := attack.Options{Level: sandbox.Full, Only: f.only}
	if f.settings != "" {
		s, err := settings.Load(f.settings)
		if err != nil {
			return o, err
		}
		o.Level, o.Toolchains = sandbox.Level(s.Sandbox.Level), s.Sandbox.Toolchains
	}
	if len(o.Toolchains) > 0 {
		t, err := c.Target()
		if err != nil {
			return o, err
		}
		o.Private = slices.DeleteFunc([]string{t.DataDir, worker.DefaultCache()}, func(dir string) bool { return dir == "" })
	}
	if f.level != "" {
		o.Level = sandbox.Level(f.level)
	}
	switch o.Level {
	case sandbox.Gvisor, sandbox.Full, sandbox.Landlock, sandbox.Off:
		return o, nil
	default:
		return o, fmt.Errorf("--level is %q; it takes gvisor, full, landlock or off", o.Level)
	}
}

// Report is the outcome of a check, and its JSON output.
type Report struct {
	Level   sandbox.Level   `json:"level"` // required level
	Host    hostReport      `json:"host"`
	Attacks []attack.Result `json:"attacks"` // empty if the host does not offer the level
	attack.Totals
}

// hostReport describes the sandbox of this host.
type hostReport struct {
	Level       sandbox.Level `json:"level"`
	Missing     []string      `json:"missing"`
	LandlockABI int           `json:"landlock_abi"`
	Cgroup      string        `json:"cgroup"` // empty if a watchdog replaces control groups
	Gvisor      string        `json:"gvisor"` // path of runsc; empty if there is none
}

// describe returns the report on the host before any attack.
func describe(o attack.Options) Report {
	h := o.Host
	return Report{
		Level: o.Level, Attacks: []attack.Result{},
		Host: hostReport{Level: h.Level, Missing: append([]string{}, h.Missing...), LandlockABI: h.Landlock, Cgroup: h.Cgroup, Gvisor: h.Gvisor},
	}
}

func (r *Report) count() {
	for _, a := range r.Attacks {
		r.Add(a)
	}
}

// Failed returns the names of the attacks that the level should have stopped.
func (r Report) Failed() (failed []string) {
	for _, a := range r.Attacks {
		if a.Failed() {
			failed = append(failed, a.Name)
		}
	}
	return failed
}

// showHost prints the sandbox of the host for a person.
func showHost(c *hall.CLI, r Report) error {
	if c.Scripted() {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This host offers the sandbox level %s.\n", r.Host.Level)
	for _, m := range r.Host.Missing {
		fmt.Fprintf(&b, "  missing for full: %s\n", m)
	}
	landlock := "none"
	if r.Host.LandlockABI > 0 {
		landlock = fmt.Sprintf("version %d of its interface", r.Host.LandlockABI)
	}
	limits := "watched by the worker (it has no delegated control group v2)"
	if r.Host.Cgroup != "" {
		limits = "enforced by control groups, in " + r.Host.Cgroup
	}
	fmt.Fprintf(&b, "  Landlock:  %s\n  gVisor:    %s\n  limits:    %s\n", landlock, cmp.Or(r.Host.Gvisor, "there is no runsc on the PATH"), limits)
	return c.Print(text.Terminal(b.String()) + "\n")
}

// showAttack prints the result of an attack as soon as it ends.
func showAttack(c *hall.CLI, a attack.Result) {
	if !c.JSON {
		fmt.Fprintln(c.Stdout, text.Terminal(a.String())) // printing the total reports a broken stdout
	}
}

// showTotal prints the total, or the whole report as JSON.
func showTotal(c *hall.CLI, r Report) error {
	if c.Scripted() {
		return c.PrintJSON(r)
	}
	parts := []string{fmt.Sprintf("%d stopped", r.Stopped)}
	if r.Open > 0 {
		parts = append(parts, fmt.Sprintf("%d open (%d of them known)", r.Open, r.Known))
	}
	if r.NotTried > 0 {
		parts = append(parts, fmt.Sprintf("%d not tried", r.NotTried))
	}
	if r.NoVerdict > 0 {
		parts = append(parts, fmt.Sprintf("%d without a verdict", r.NoVerdict))
	}
	return c.Print(fmt.Sprintf("\n%s at level %s: %s\n", progress.Plural(len(r.Attacks), "attack"), r.Level, strings.Join(parts, ", ")))
}
