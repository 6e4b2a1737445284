package artifact

// Material names the files that a session or a run starts from by references, sha256:<hex>,
// to stored directories.
type Material struct {
	Base    string    `json:"base,omitempty"`    // the workspace of every step
	Context []Context `json:"context,omitempty"` // directories shown read-only
}

// Context is a directory that agents may only read, at context/<name>/.
type Context struct {
	Name     string `json:"name"`
	Manifest string `json:"manifest"`
}

// CheckContextName refuses a name that cannot be both a directory's name and part of a key.
// The error is a *NameError.
func CheckContextName(name string) error {
	if err := CheckKey(name); err != nil || len(name) > 64 || name != unescapeKey(name) {
		return nameError("context name", name, "use up to 64 letters, digits, '.', '_' and '-', and no dot at the start")
	}
	for i := range len(name) {
		if name[i] == '/' {
			return nameError("context name", name, "use a name without \"/\"")
		}
	}
	return nil
}

// Given reports whether there is a base or a context.
func (m Material) Given() bool { return m.Base != "" || len(m.Context) > 0 }
