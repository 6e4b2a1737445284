package text

import (
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The program understands every key of both files, and the rules that ours names exist.
func TestRules_data(t *testing.T) {
	t.Parallel()
	var theirs, ours data
	read, err := toml.DecodeFS(files, "gitleaks.toml", &theirs)
	require.NoError(t, err)
	var unknown []string
	for _, key := range read.Undecoded() {
		if !slices.Contains([]string{"title", "minVersion", "allowlist.description", "rules.description", "rules.allowlists.description", "rules.allowlists.condition"}, key.String()) {
			unknown = append(unknown, key.String())
		}
	}
	require.Empty(t, unknown)
	read, err = toml.DecodeFS(files, "rules.toml", &ours)
	require.NoError(t, err)
	for _, key := range read.Undecoded() {
		require.Contains(t, key.String(), "description")
	}
	require.Len(t, theirs.Rules, 222)
	require.LessOrEqual(t, len(ours.Names), 40)
	named := func(rules []*rule, id string) bool {
		return slices.ContainsFunc(rules, func(r *rule) bool { return r.ID == id })
	}
	for _, id := range ours.Without {
		require.True(t, named(theirs.Rules, id), id)
	}
	for _, id := range ours.Anywhere {
		require.True(t, named(append(theirs.Rules, ours.Rules...), id), id)
		require.NotContains(t, ours.Without, id)
	}
}

// used returns the rules that are in use.
func used() []*rule {
	k := known()
	all := slices.Clone(k.plain)
	for _, list := range k.keywords {
		for _, w := range list {
			for _, r := range w.rules {
				if !slices.Contains(all, r) {
					all = append(all, r)
				}
			}
		}
	}
	return all
}

// Every expression compiles. The allowlists of the rules in use compare regular expressions with
// the secret or the match, and hold if one of their parts does.
func TestRules_used(t *testing.T) {
	t.Parallel()
	rules := used()
	require.Greater(t, len(rules), 220)
	for _, r := range rules {
		require.NotEmpty(t, r.Regex, r.ID)
		require.LessOrEqual(t, r.SecretGroup, r.form().NumSubexp()-1, r.ID)
		require.NotNil(t, r.path(), r.ID)
		for _, a := range r.Allowlists {
			require.NotNil(t, a.regexes(), r.ID)
			require.NotNil(t, a.paths(), r.ID)
			require.Contains(t, []string{"", "match"}, a.RegexTarget, r.ID)
		}
		for _, k := range r.Keywords {
			require.Equal(t, strings.ToLower(k), k, r.ID)
			require.Greater(t, len(k), 1, r.ID)
		}
	}
}

// A search that begins at the keywords finds what a search of the whole content would find.
func TestRules_beginAtKeywords(t *testing.T) {
	t.Parallel()
	for _, r := range used() {
		if r.anywhere {
			continue
		}
		alone := &rules{allowed: &allowlist{}, keywords: make([][]keyword, 1)}
		alone.addRule(&rule{ID: r.ID, Regex: r.Regex, Keywords: r.Keywords, SecretGroup: r.SecretGroup})
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				content := rapid.SampledFrom([]string{"", "x = ", "\n"}).Draw(t, "before") + rapid.StringMatching(r.Regex).Draw(t, "match") + "\n"
				content = strings.NewReplacer("ſ", "s", "\u212a", "k").Replace(content) // regular expressions fold more than ASCII
				require.True(t, alone.findSecret("a", []byte(content)), "%q", content)
			})
		})
	}
}
