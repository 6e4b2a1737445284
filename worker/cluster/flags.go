package cluster

import (
	"fmt"

	"github.com/spf13/pflag"
)

// WorkerFlags are the flags that `conclave worker` and conclave-worker share.
type WorkerFlags struct {
	Settings   string // path of the operator's file
	MaxSteps   int    // 0 for the default
	StateDir   string
	Deployment string
	Log        Log
	Offline    bool
}

// Flags adds the flags.
func (f *WorkerFlags) Flags(set *pflag.FlagSet) {
	set.StringVar(&f.Settings, "worker-config", "", "the operator's configuration `FILE`: providers, teams, limits")
	set.IntVar(&f.MaxSteps, "max-concurrent-steps", 0, "how many steps run at a time (default from --worker-config, else 32)")
	set.StringVar(&f.StateDir, "state-dir", "", "the `DIR` in which the next worker of a cluster finds the steps of one that was killed (default ~/.local/state/conclave/workers)")
	set.StringVar(&f.Deployment, "deployment", "", "belong to the worker deployment `NAME` of a cluster: a run stays with the build of the worker that it began with")
	f.Log.Flags(set)
	set.BoolVar(&f.Offline, "offline", false, "the default team uses the built-in deterministic model")
}

// Check refuses a number of steps that is out of range.
func (f WorkerFlags) Check() error {
	if f.MaxSteps < 0 {
		return fmt.Errorf("--max-concurrent-steps is %d; it must be at least 1", f.MaxSteps)
	}
	return nil
}
