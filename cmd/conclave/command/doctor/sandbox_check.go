package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
	"conclave/cmd/conclave/cli"
	"conclave/engine/text"
	"conclave/worker"
)

// SandboxCommands returns `conclave sandbox`, and the hidden command that package attack executes
// for each part of an attack.
func SandboxCommands(c *cli.CLI) []*cobra.Command {
	cmd := &cobra.Command{
		Use:     "sandbox",
		Short:   "Test the sandbox of the agents' shell",
		Long:    "Check the sandbox in which agents run commands on this host.",
		Example: "  conclave sandbox check",
		RunE:    cli.Group,
	}
	cmd.AddCommand(sandboxCheckCommand(c))
	return []*cobra.Command{cmd, {
		Use: attack.ChildCommand, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return cli.Exit(attack.RunChild(args, c.Stdin, c.Stdout))
		},
	}}
}

// checkFlags are the flags of sandbox check besides the common ones.
type checkFlags struct {
	level    string
	only     []string
	settings string // path of the worker's configuration
}

func sandboxCheckCommand(c *cli.CLI) *cobra.Command {
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
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("only") {
				for i := range f.only {
					f.only[i] = strings.TrimSpace(f.only[i])
				}
				if len(f.only) == 0 {
					return errors.New("--only names no attack; leave it out to run all of them")
				}
			}
			return checkSandbox(cmd.Context(), c, f)
		},
	}
	cmd.Flags().StringVar(&f.level, "level", "", "required `LEVEL`: full, landlock or off (default from --worker-config, else full)")
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "run only the attacks of these `NAMES`")
	cmd.Flags().StringVar(&f.settings, "worker-config", "", "the operator's configuration `FILE`, for its sandbox.level and sandbox.toolchains")
	return cmd
}

func checkSandbox(ctx context.Context, c *cli.CLI, f checkFlags) error {
	o, err := f.attackOptions(c)
	if err != nil {
		return err
	}
	o.Host = sandbox.Probe(ctx)
	if err := showHost(c, describeHost(o)); err != nil {
		return err
	}
	o.Each = func(a attack.Result) {
		if !c.JSON {
			fmt.Fprintln(c.Stdout, text.Terminal(a.String())) // printing the total reports a broken stdout
		}
	}
	result, err := attackSandbox(ctx, o)
	_, unavailable := errors.AsType[*sandbox.LevelError](err)
	switch {
	case unavailable && c.Scripted():
		return errors.Join(c.PrintJSON(result), err)
	case err != nil && len(result.Attacks) == 0:
		return err
	case ctx.Err() != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted after %d attacks; all their traces are removed", len(result.Attacks))
	case err != nil:
		return cli.Exitf(cli.ExitNoAnswer, "run the attacks: %w", err)
	}
	if err := showTotal(c, result); err != nil {
		return err
	}
	if failed := result.Failed(); len(failed) > 0 {
		return cli.Exitf(cli.ExitNoAnswer, "level %s does not stop all that it promises on this host: %s", o.Level, strings.Join(failed, ", "))
	}
	return nil
}

func attackSandbox(ctx context.Context, o attack.Options) (SandboxReport, error) {
	r := describeHost(o)
	attacks, err := attack.Run(ctx, o)
	if _, unavailable := errors.AsType[*sandbox.LevelError](err); !unavailable {
		r.Attacks = append(r.Attacks, attacks...)
	}
	r.countOutcomes()
	return r, err
}

// attackOptions returns the options from the worker configuration. --level overrides its level.
func (f checkFlags) attackOptions(c *cli.CLI) (attack.Options, error) {
	o := attack.Options{Level: sandbox.Full, Only: f.only}
	if f.settings != "" {
		s, err := worker.LoadSettings(f.settings)
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
	case sandbox.Full, sandbox.Landlock, sandbox.Off:
		return o, nil
	default:
		return o, fmt.Errorf("--level is %q; it takes full, landlock or off", o.Level)
	}
}

// SandboxReport is the outcome of a check, and its JSON output.
type SandboxReport struct {
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
}

func describeHost(o attack.Options) SandboxReport {
	h := o.Host
	return SandboxReport{
		Level: o.Level, Attacks: []attack.Result{},
		Host: hostReport{Level: h.Level, Missing: append([]string{}, h.Missing...), LandlockABI: h.Landlock, Cgroup: h.Cgroup},
	}
}

func (r *SandboxReport) countOutcomes() {
	for _, a := range r.Attacks {
		r.Add(a)
	}
}

// Failed returns the names of the attacks that the level should have stopped.
func (r SandboxReport) Failed() (failed []string) {
	for _, a := range r.Attacks {
		if a.Failed() {
			failed = append(failed, a.Name)
		}
	}
	return failed
}

func showHost(c *cli.CLI, r SandboxReport) error {
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
	fmt.Fprintf(&b, "  Landlock:  %s\n  limits:    %s\n", landlock, limits)
	return c.Print(text.Terminal(b.String()) + "\n")
}

func showTotal(c *cli.CLI, r SandboxReport) error {
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
	return c.Print(fmt.Sprintf("\n%s at level %s: %s\n", cli.Plural(len(r.Attacks), "attack"), r.Level, strings.Join(parts, ", ")))
}
