package page

import (
	"slices"

	"conclave/cmd/conclave/run/record"
	"conclave/engine/llm"
)

// dataTable has the fields of the final and each agent's newest answer, if answers are data.
type dataTable struct {
	Asked  bool // the session has a schema
	Labels []string
	Rows   []dataRow
}

type dataRow struct {
	llm.Difference // or agreement, with the values in the order of Labels
	Differs        bool
}

const maxDataRows = 200

func dataOf(s *record.Session) (t dataTable) {
	schema, err := llm.ReadDataSchema(s.Team.AnswerSchema)
	if t.Asked = err == nil; !t.Asked {
		return t // answers are texts
	}
	shown := []*record.Step{s.Final()}
	for _, a := range s.Agents {
		shown = append(shown, s.Answered(a.LatestLabel))
	}
	var data []llm.Data
	for i, p := range shown {
		if p == nil || p.Answer == nil || slices.Contains(shown[:i], p) {
			continue
		}
		if d, err := schema.Read(p.Answer.Data); err == nil {
			data, t.Labels = append(data, d), append(t.Labels, p.Answer.Label)
		}
	}
	differ := llm.Differences(data)
	all := llm.Differences(append(data, llm.Data{})) // every field differs from none
	for _, row := range all[:min(len(all), maxDataRows)] {
		row.Values = row.Values[:len(data)]
		t.Rows = append(t.Rows, dataRow{row, slices.ContainsFunc(differ, func(d llm.Difference) bool { return d.Path == row.Path })})
	}
	return t
}
