package config

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse feeds Parse anything. Whatever is accepted is read back unchanged
// from its canonical form, and what a cluster accepts a local run does too.
func FuzzParse(f *testing.F) {
	f.Add(string(Starter()), false)
	f.Add(contract, false)
	_, cases := readBroken(f)
	for _, c := range cases {
		f.Add(c.text, c.reach() == Cluster)
	}
	f.Fuzz(func(t *testing.T, text string, cluster bool) {
		reach := Local
		if cluster {
			reach = Cluster
		}
		team, err := Parse("team.yaml", []byte(text), reach)
		if err != nil {
			var problems Problems
			require.ErrorAs(t, err, &problems)
			return
		}
		canonical, err := team.Canonical()
		require.NoError(t, err)
		for _, r := range []Reach{reach, Local} {
			again, err := Parse("canonical", canonical, r)
			require.NoError(t, err, string(canonical))
			if !reflect.DeepEqual(team, again) {
				require.Equal(t, team, again)
			}
		}
	})
}

// FuzzParseCriteria feeds ParseCriteria anything.
func FuzzParseCriteria(f *testing.F) {
	f.Add(`[{"text": "a", "category": "must", "anti_patterns": ["b"], "score_anchors": {"1": "c"}}]`)
	f.Add(`{"criteria": [{"name": "a"}, 1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		criteria, err := ParseCriteria("c.json", []byte(text))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		for _, c := range criteria {
			require.NotEmpty(t, c.Text)
		}
	})
}
