package pull

import (
	"context"
	"encoding/json"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/member"
)

// ledger compares what counts with the commits of the steps that it counts.
func (v *verifier) ledger(ctx context.Context) error {
	layout := artifact.InDir()
	entries, err := member.Ledger(ctx, v.store, layout)
	if err != nil {
		v.wrong("ledger", "cannot be followed: %v", cause(err))
		return ctx.Err()
	}
	for _, e := range entries {
		if e.Step == 0 || e.Action == coordination.Say {
			continue
		}
		name := layout.Step(e.Agent, e.Step, "action.json")
		data, err := v.read(ctx, name)
		if err != nil {
			return err
		}
		var c artifact.Commit
		switch {
		case data == nil:
			v.wrong(name, "is missing, and entry %d of the ledger counts it", e.Seq)
		case json.Unmarshal(data, &c) != nil: // said where the step is verified
		case c.Kind != string(e.Action):
			v.wrong(name, "is a %s; entry %d of the ledger says %s", c.Kind, e.Seq, e.Action)
		}
	}
	return nil
}
