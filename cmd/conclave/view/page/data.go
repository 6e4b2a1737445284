package page

import (
	"slices"

	"conclave/cmd/conclave/run/record"
	"conclave/engine/llm"
)

// dataTable has the fields of each agent's newest answer and of the final one, if answers are data.
type dataTable struct {
	Asked  bool // the session has a schema
	Labels []string
	Rows   []dataRow
}

type dataRow struct {
	Path    string
	Values  []string // in the order of Labels; empty where the field is missing
	Differs bool
}

const maxDataRows = 200

func dataOf(s *record.Session) (t dataTable) {
	schema, err := llm.ReadDataSchema(s.Team.AnswerSchema)
	if err != nil {
		return t // answers are texts
	}
	t.Asked = true
	shown := []*record.Step{s.Final()}
	for _, a := range s.Agents {
		shown = append(shown, s.Answered(a.LatestLabel))
	}
	var data []llm.Data
	for i, p := range shown {
		if p == nil || p.Answer == nil || i > 0 && p == shown[0] {
			continue
		}
		if d, err := schema.Read(p.Answer.Data); err == nil {
			data, t.Labels = append(data, d), append(t.Labels, p.Answer.Label)
		}
	}
	all := llm.Differences(append(data, llm.Data{})) // every field differs from none
	for _, field := range all[:min(len(all), maxDataRows)] {
		row := dataRow{Path: cleanLine(field.Path), Values: field.Values[:len(data)]}
		row.Differs = len(slices.Compact(slices.Clone(row.Values))) > 1
		for i, value := range row.Values {
			row.Values[i] = briefLine(value, maxDataRows)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
