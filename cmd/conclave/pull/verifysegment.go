package pull

import (
	"context"

	"conclave/engine/pipeline"
	"conclave/engine/segment"
)

// segment verifies one segment of a pipeline's step, as step does one of an agent:
// the commit is the truth about everything else.
func (v *verifier) segment(ctx context.Context, name string) error {
	dir := "steps/" + name + "/"
	manifest, err := v.manifest(ctx, dir)
	if err != nil {
		return err
	}
	data, err := v.read(ctx, dir+"action.json")
	if err != nil || data == nil {
		return err
	}
	c, ok, err := v.commit(ctx, dir, data, manifest)
	if err != nil || !ok {
		return err
	}
	o, err := segment.ReadOutcome(c)
	if err != nil {
		v.wrong(dir+"action.json", "cannot be verified: %v", err)
		return nil
	}
	answer, err := v.read(ctx, dir+"answer.json")
	said := o.Text != "" && o.Action != pipeline.Call
	switch {
	case err != nil:
		return err
	case said && answer == nil:
		v.wrong(dir+"answer.json", "is missing: action.json commits a text")
	case said:
		v.agree(dir+"answer.json", answer, map[string]any{"answer": o.Text, "timestamp": c.Timestamp})
	case answer != nil:
		v.wrong(dir+"answer.json", "is there, and action.json commits no text")
	}
	return nil
}
