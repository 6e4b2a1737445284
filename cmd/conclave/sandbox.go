package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
	"conclave/worker"
	"conclave/worker/settings"
)

func (c *cli) sandboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sandbox",
		Short:   "The sandbox of the agents' shell: check",
		Long:    "Look at the sandbox in which agents run commands, as far as this host gives it.",
		Example: "  conclave sandbox check",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fmt.Errorf("unknown command %q for %q; there is `conclave sandbox check`", args[0], cmd.CommandPath())
		},
	}
	cmd.AddCommand(c.sandboxCheckCommand())
	return cmd
}

// sandboxFlags are what `sandbox check` takes.
type sandboxFlags struct {
	level    string
	only     []string
	settings string // file
}

func (c *cli) sandboxCheckCommand() *cobra.Command {
	var f sandboxFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "What this host gives, and attacks run against it",
		Long: `Say how well this host can confine the commands of agents, what it lacks for the
level full, and how to get it. Then run a list of attacks in a sandbox and see
from outside which of them work. They are bounded and harmless, also where
nothing stops them, and take a minute or two.

The level is that of --level, else of the worker's configuration, else full. The
toolchains of the configuration are there for the attackers, too; one that shows
more than programs is refused.
Attacks that the level is known not to stop are marked as known; docs/sandbox.md
says why.

Exit code 0: this host gives the level, and every attack that the level promises
to stop was stopped. 1: it does not give the level; no attack was run. 2: an
attack got through. 4: interrupted.`,
		Example: `  conclave sandbox check
  conclave sandbox check --level landlock
  conclave sandbox check --only tcp,udp,forkbomb --json
  conclave sandbox check --worker-config worker.yaml`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("only") {
				for i := range f.only {
					f.only[i] = strings.TrimSpace(f.only[i])
				}
				if len(f.only) == 0 {
					return errors.New("--only names no attack; leave it out to run all of them")
				}
			}
			return c.sandboxCheck(cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&f.level, "level", "", "`LEVEL` that is wanted: full, landlock or off (default from --worker-config, else full)")
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "run only the attacks of these `NAMES`")
	cmd.Flags().StringVar(&f.settings, "worker-config", "", "the operator's configuration `FILE`, for its sandbox.level and sandbox.toolchains")
	return cmd
}

func (c *cli) sandboxCheck(ctx context.Context, f sandboxFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if len(o.Toolchains) > 0 {
		t, err := c.target()
		if err != nil {
			return err
		}
		o.Private = slices.DeleteFunc([]string{t.dataDir, worker.DefaultCache()}, func(dir string) bool { return dir == "" })
	}
	host := sandbox.Probe(ctx)
	report := sandboxReport{Level: o.Level, Host: describeHost(host), Attacks: []attack.Result{}}
	if err := c.showHost(report); err != nil {
		return err
	}
	o.Host, o.Each = host, c.showAttack
	report.Attacks, err = attack.Run(ctx, o)
	var less *sandbox.LevelError
	switch {
	case errors.As(err, &less) && !c.people():
		report.Attacks = []attack.Result{}
		return errors.Join(c.printJSON(report), err)
	case err != nil && len(report.Attacks) == 0:
		return err
	case ctx.Err() != nil:
		return end(exitInterrupted, "interrupted after %d attacks, of which nothing is left", len(report.Attacks))
	case err != nil:
		return end(exitNoAnswer, "run the attacks: %w", err)
	}
	report.count()
	if err := c.showTotal(report); err != nil {
		return err
	}
	if failed := report.failed(); len(failed) > 0 {
		return end(exitNoAnswer, "level %s does not keep what it promises on this host: %s", o.Level, strings.Join(failed, ", "))
	}
	return nil
}

// options are those of the configuration, with the level of the flag, if there is
// one, and full without either.
func (f sandboxFlags) options() (attack.Options, error) {
	o := attack.Options{Level: sandbox.Full, Only: f.only}
	if f.settings != "" {
		s, err := settings.Load(f.settings)
		if err != nil {
			return o, err
		}
		o.Level, o.Toolchains = sandbox.Level(s.Sandbox.Level), s.Sandbox.Toolchains
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

// attackCommand is a part in an attack, started by package attack.
func (c *cli) attackCommand() *cobra.Command {
	return &cobra.Command{
		Use: attack.ChildCommand, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return silent(attack.RunChild(args, c.stdin, c.stdout)) },
	}
}
