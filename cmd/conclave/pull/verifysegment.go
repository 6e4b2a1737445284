package pull

import (
	"context"
	"encoding/json"

	"conclave/engine/artifact"
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
	v.found.Steps++
	var c artifact.Commit
	if err := json.Unmarshal(data, &c); err != nil {
		v.wrong(dir+"action.json", "is malformed: %v", err)
		return nil
	}
	if err := v.committedFiles(ctx, dir, c.Manifest, manifest); err != nil {
		return err
	}
	v.transcript(dir, c.Transcript)
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
