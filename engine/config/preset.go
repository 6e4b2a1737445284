package config

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// Preset is a built-in set of evaluation criteria. About names the work that it fits.
type Preset struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`
	Criteria Criteria `json:"criteria"`
}

// presetFile is the content of a preset's file. The file's name is the preset's name.
type presetFile struct {
	About    string   `json:"about" doc:"The work that it fits."`
	Criteria Criteria `json:"criteria" doc:"The criteria."`
}

// Presets returns the built-in sets of evaluation criteria, sorted by name.
func Presets() []Preset {
	var presets []Preset
	for _, name := range presetNames() {
		if p, ok := PresetNamed(name); ok {
			presets = append(presets, p)
		}
	}
	return presets
}

// PresetNamed returns the built-in set of evaluation criteria with the given name.
func PresetNamed(name string) (Preset, bool) {
	file := "presets/" + name + ".yaml"
	data, err := presetFiles.ReadFile(file) // fails for a name that leads out of the directory
	if err != nil {
		return Preset{}, false
	}
	f, err := Decode(file, data, Local, func(presetFile, *Decoder) {})
	return Preset{Name: name, About: f.About, Criteria: f.Criteria}, err == nil
}

func presetNames() []string {
	files, _ := fs.Glob(presetFiles, "presets/*.yaml") // the pattern is well-formed
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(file, "presets/"), ".yaml"))
	}
	return names
}
