package start

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/pipeline"
)

// inputFlags are the inputs of a pipeline's run.
type inputFlags struct {
	pairs []string // NAME=VALUE
	file  string   // a JSON object; empty for none
}

func (f *inputFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.pairs, "input", nil, "an input of the pipeline, as `NAME=VALUE`; repeatable")
	cmd.Flags().StringVar(&f.file, "input-file", "", "the inputs of the pipeline as a JSON object in `FILE`; --input replaces its values")
}

func (f *inputFlags) areGiven() bool { return len(f.pairs) > 0 || f.file != "" }

// readInputs returns the inputs that a pipeline's schema accepts. The value of an input is a text if the schema says
// so or if it is not JSON.
func (f *inputFlags) readInputs(p config.Pipeline) (json.RawMessage, error) {
	if !f.areGiven() {
		return p.ReadInputs(nil)
	}
	inputs := map[string]json.RawMessage{}
	if f.file != "" {
		data, err := teams.ReadFile(f.file)
		if err == nil {
			err = json.Unmarshal(data, &inputs)
		}
		if err != nil {
			return nil, fmt.Errorf("--input-file %s: %w; name a file with a JSON object", f.file, err)
		}
	}
	for _, pair := range f.pairs {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--input %q: write it as NAME=VALUE", pair)
		}
		inputs[name] = json.RawMessage(value)
		if isText(p, name) || !json.Valid([]byte(value)) {
			inputs[name], _ = json.Marshal(value) // encoding of strings cannot fail
		}
	}
	all, err := json.Marshal(inputs)
	if err != nil {
		return nil, err
	}
	return p.ReadInputs(all)
}

// isText reports whether the schema of a pipeline says that an input is a text.
func isText(p config.Pipeline, name string) bool {
	if p.Inputs == nil {
		return false
	}
	var property struct{ Type any }
	_ = json.Unmarshal(pipeline.Part(json.RawMessage(p.Inputs.Sent("")), []string{"properties", name}), &property) // a schema may have none
	return property.Type == "string"
}
