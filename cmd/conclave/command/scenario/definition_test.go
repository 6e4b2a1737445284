package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/scenario"
)

// Opening names the directory and the remedy.
func TestOpen_refuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := OpenProject(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "`conclave scenario create` makes one")
	file := filepath.Join(dir, "file")
	write(t, file, "x")
	_, err = OpenProject(file)
	require.ErrorContains(t, err, "open the project "+file)
	_, err = MakeProject(filepath.Join(file, "below"))
	require.ErrorContains(t, err, "make the project")
}

// Folders without a definition, links and files are not scenarios.
func TestSlugs(t *testing.T) {
	t.Parallel()
	p := open(t, t.TempDir())
	for _, slug := range []string{"sell", "buy"} {
		save(t, p, slug, "Open")
	}
	write(t, p.Path("Upper", "meta.yaml"), "title: x\n")
	write(t, p.Path("draft", "notes.md"), "x")
	write(t, p.Path("file"), "x")
	require.NoError(t, os.Symlink(p.Path("buy"), p.Path("linked")))
	require.NoError(t, os.MkdirAll(p.Path("odd"), 0o755))
	require.NoError(t, os.Symlink(p.Path("buy", "meta.yaml"), p.Path("odd", "meta.yaml")))
	slugs, err := p.Slugs()
	require.NoError(t, err)
	require.Equal(t, []string{"buy", "sell"}, slugs)
	_, err = p.Describe("none")
	require.EqualError(t, err, "there is no scenario none in "+p.Dir()+"; there are buy, sell")
	_, err = open(t, t.TempDir()).Describe("none")
	require.ErrorContains(t, err, "and no other; `conclave scenario create` makes one")
}

// Placeholders are replaced in steps and in prd.md; BASE_URL is the address of the command
// line, else that of prd.md.
func TestLoad_values(t *testing.T) {
	t.Parallel()
	p := open(t, t.TempDir())
	save(t, p, "buy", "Open")
	write(t, p.Path("buy", "steps", "01-open.md"), "# 01 Open\n\n## Actions\n\nOpen ${BASE_URL}/shop as ${USER_NAME}.\n")
	load := func(v Values) string {
		d, err := p.Load("buy", v)
		require.NoError(t, err)
		return d.Files["01-open.md"]
	}
	vars := func(pairs ...string) scenario.Vars {
		v := scenario.Vars{Values: map[string]string{}, Used: map[string]bool{}}
		for i := 0; i < len(pairs); i += 2 {
			v.Values[pairs[i]] = pairs[i+1]
		}
		return v
	}
	write(t, filepath.Join(p.Dir(), "prd.md"), "## Base URL\nhttp://staging\n")
	require.Contains(t, load(Values{Vars: vars("USER_NAME", "ann")}), "Open http://staging/shop as ann.")
	require.Contains(t, load(Values{BaseURL: "http://local", Vars: vars("USER_NAME", "ann")}), "Open http://local/shop as ann.")
	require.Contains(t, load(Values{Vars: vars("USER_NAME", "ann", "BASE_URL", "http://mine")}), "Open http://mine/shop")
	_, err := p.Load("buy", Values{})
	require.ErrorContains(t, err, "USER_NAME")
	require.ErrorContains(t, err, "01-open.md")
	write(t, filepath.Join(p.Dir(), "prd.md"), "## Base URL\n${NOWHERE}\n")
	_, err = p.Load("buy", Values{Vars: vars("USER_NAME", "ann")})
	require.ErrorContains(t, err, "NOWHERE")
	write(t, filepath.Join(p.Dir(), "prd.md"), "caf\xe9")
	_, err = p.Load("buy", Values{})
	require.ErrorContains(t, err, "prd.md: it is not UTF-8 text")
}

// Documents are read up to a maximum size, and misspelt keys are named with their position.
func TestDescribe_refuses(t *testing.T) {
	t.Parallel()
	steps := "steps: [{id: '01', title: x, file: 01-open.md}]\n"
	for says, meta := range map[string]string{
		"it has more than 1048576 bytes": "# " + strings.Repeat("x", maxDocument),
		`line 2, column 1: "require_evidnce" is not a key of meta.yaml; did you mean require_evidence?`: steps + "require_evidnce: true\n",
		`"limit" is not a key of meta.yaml; did you mean limits?`:                                       steps + "limit: {seconds: 1}\n",
		"line 2: a value of the wrong type":                                                             steps + "limits: [1]\n",
		"a value of the wrong type; the file takes title: TEXT":                                         "title: [a]\n",
	} {
		p := open(t, t.TempDir())
		write(t, p.Path("buy", "meta.yaml"), meta)
		_, err := p.Describe("buy")
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "meta.yaml")
	}
	p := open(t, t.TempDir())
	write(t, p.Path("buy", "meta.yaml"), steps+"owner: me\nlimits: {seconds: 9}\nlimit: mine\n")
	d, err := p.Describe("buy")
	require.NoError(t, err, "keys of the author's own are left alone")
	require.Equal(t, 9, d.Plan.Limits.Seconds)
	require.Equal(t, "buy", d.Plan.Title)
}

// A definition that cannot be edited is not changed.
func TestSave_refuses(t *testing.T) {
	t.Parallel()
	p := open(t, t.TempDir())
	save(t, p, "buy", "Open")
	plan := scenario.Plan{Slug: "buy", Title: "Buy", Steps: []scenario.StepRef{{ID: "01", Title: "Open", File: "01-open.md"}}}
	for _, broken := range []string{"steps: [\n", "- 1\n", "7\n"} {
		write(t, p.Path("buy", "meta.yaml"), broken)
		_, err := p.Save(plan, map[string]string{"01-open.md": "new"}, nil)
		require.ErrorContains(t, err, "correct it, or remove it")
		require.Equal(t, broken, read(t, p.Path("buy", "meta.yaml")))
		require.NotEqual(t, "new", read(t, p.Path("buy", "steps", "01-open.md")))
	}
	_, err := p.Save(scenario.Plan{Slug: "buy"}, nil, nil)
	require.Error(t, err)
	write(t, p.Path("buy", "meta.yaml"), "")
	saved, err := p.Save(plan, map[string]string{"01-open.md": "new"}, []string{"smoke"})
	require.NoError(t, err)
	require.False(t, saved.New)
	d, err := p.Describe("buy")
	require.NoError(t, err)
	require.Equal(t, []string{"smoke"}, d.Tags)
	require.Empty(t, leftovers(t, p), "files in progress are removed")
}

// leftovers returns the names of temporary files.
func leftovers(t *testing.T, p *Project) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(p.Dir(), func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".tmp-") {
			found = append(found, path)
		}
		return err
	}))
	return found
}
