package agent

import (
	"context"
	"fmt"
	"strconv"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/engine/text"
)

// fillPrompt names the values of the prompt's fields in it, and keeps the values for a message of their own:
// others have written them (rule 22).
func (o *opened) fillPrompt(ctx context.Context) error {
	t, err := pipeline.ReadTemplate(o.Prompt)
	if err != nil {
		return err
	}
	var values pipeline.Values
	if fields := t.Fields(); len(fields) > 0 {
		if values, err = o.Values(ctx, o.store); err != nil {
			return err
		}
		for _, f := range fields {
			value, err := values.Value(f)
			if err != nil {
				return err
			}
			o.task.Values = append(o.task.Values, earlier{Step: f.String(), Text: value})
		}
	}
	filled, err := t.Fill(func(f pipeline.Field) (string, error) { return "(the value of " + f.String() + " below)", nil })
	if o.task.Prompt = filled; o.System != "" && filled != "" {
		o.task.Prompt = o.System + "\n\n" + filled
	} else {
		o.task.Prompt = o.System + filled
	}
	return err
}

// Values reads the values that templates of the step name.
func (s Step) Values(ctx context.Context, store artifact.Store) (pipeline.Values, error) {
	v := pipeline.Values{Request: s.Request, Inputs: s.Inputs, Steps: map[string]pipeline.StepValue{}}
	if at := s.Launch.Item; at != nil {
		v.Index = &at.Index
		list := s.Items
		if at.From != nil {
			c, err := ReadCommit(ctx, store, s.Layout, *at.From)
			if err != nil {
				return v, fmt.Errorf("read the items of %s: %w", at.Step, err)
			}
			list = pipeline.Part(c.Output, s.ItemsPath)
		}
		v.Item = pipeline.Part(list, []string{strconv.Itoa(at.Index)})
	}
	for _, ref := range s.Launch.Values {
		c, err := ReadCommit(ctx, store, s.Layout, ref)
		if err != nil {
			return v, fmt.Errorf("read the value of step %s: %w", ref.Step, err)
		}
		v.Steps[ref.Step] = pipeline.StepValue{Text: c.Text, Output: c.Output}
	}
	return v, nil
}

// FillArguments fills the templates in the texts of a call's arguments. In a command, each value is one word.
func FillArguments(tool string, args map[string]any, v pipeline.Values) (map[string]any, error) {
	filled, err := pipeline.FillTexts(args, func(content string) (string, error) {
		t, err := pipeline.ReadTemplate(content)
		if err != nil {
			return "", err
		}
		return t.Fill(func(f pipeline.Field) (string, error) {
			value, err := v.Value(f)
			if tool == llm.RunCommand {
				value = text.ShellQuote(value)
			}
			return value, err
		})
	})
	out, _ := filled.(map[string]any)
	return out, err
}
