package artifact

// Limits and names for the tests in package artifact_test, which cannot be in this package because
// storetest imports it.
const (
	MaxFiles     = maxFiles
	MaxFileBytes = maxFileBytes
	MaxBytes     = maxBytes
	MaxDepth     = maxDepth
	MaxDocument  = maxDocument
	MaxPath      = maxPath
	IgnoreFile   = ignoreFile
)

// UnescapePath decodes an escaped path. It returns an error for a path that EscapePath cannot have
// written.
func UnescapePath(escaped string) (string, error) {
	if err := CheckKey("workspace/" + escaped); err != nil {
		return "", err
	}
	return unescapeKey(escaped), nil
}
