package restapi

import "maps"

// leaseIDSchema is the id of a lease.
var leaseIDSchema = schemaOf{
	"type": "string", "pattern": "^-?[0-9a-f]+$",
	"description": "The id of a lease in hexadecimal, as etcdctl prints it.",
}

// serverSchemas are the schemas of answers about leases, alarms, users and roles.
func serverSchemas() schemaOf {
	seconds := func(doc string) schemaOf { return described(numberSchema, doc) }
	lease := schemaOf{
		"id": leaseIDSchema, "grantedTTL": seconds("The TTL that was granted, in seconds."),
		"remainingTTL": seconds("The time left, in whole seconds; 0 if it has expired and is not revoked yet."),
		"keys":         described(numberSchema, "How many keys are attached to it."),
	}
	ofLease := []string{"id", "grantedTTL", "remainingTTL"}
	user := schemaOf{
		"name":       described(stringSchema, "The name."),
		"noPassword": described(booleanSchema, "Whether the user has no password, and needs a certificate."),
		"roles":      schemaOf{"type": "array", "items": stringSchema},
	}
	ofUser := []string{"name", "noPassword", "roles"}
	role := schemaOf{
		"name":        described(stringSchema, "The name."),
		"permissions": schemaOf{"type": "array", "items": ref("Permission")},
	}
	ofRole := []string{"name", "permissions"}
	return schemaOf{
		"LeaseList": listOf("Lease", "A chunk of leases.", members("", append(ofLease, "keys"), lease)),
		"Lease": answerOf("Lease", "A lease. It has keys and attachedKeys unless keys=false.",
			append([]string{"metadata"}, ofLease...), merge(lease, schemaOf{
				"metadata": members("", []string{"resourceVersion"}, schemaOf{
					"resourceVersion": described(versionSchema, "The version at which it has these keys."),
				}),
				"attachedKeys": schemaOf{
					"type":        "array",
					"description": "The first keys that are attached to it: at most 500, or 256 KiB.",
					"items":       members("", []string{"key"}, textOf("key", "The full key.")),
				},
			})),
		"AlarmList": listOf("Alarm", "The alarms.", members("", []string{"member", "type"}, schemaOf{
			"member": described(stringSchema, "The id of the member that it is raised for, in hexadecimal."),
			"type":   described(stringSchema, "NOSPACE, CORRUPT, or the number of a kind that only clients know."),
		})),
		"UserList": listOf("User", "A chunk of users.", members("", ofUser, user)),
		"User":     answerOf("User", "A user.", ofUser, user),
		"RoleList": listOf("Role", "A chunk of roles.", members("", ofRole, role)),
		"Role":     answerOf("Role", "A role.", ofRole, role),
		"Permission": members("What a role allows: access to one key, to the keys with a prefix, or to those from "+
			"one key on up to, and without, another one.", []string{"access"}, merge(
			schemaOf{"access": described(stringSchema, "read, write, readwrite, or the number of an unknown kind, "+
				"which allows nothing.")},
			textOf("key", "The only key."), textOf("prefix", "What the keys begin with; empty for all keys."),
			textOf("from", "The first key."), textOf("to", "The end; absent if there is none."))),
		"AuthStatus": answerOf("AuthStatus", "Whether authentication is enabled.", []string{"enabled", "authRevision"},
			schemaOf{
				"enabled":      described(booleanSchema, "Whether callers need a user."),
				"authRevision": described(versionSchema, "It counts the changes of users and roles."),
			}),
	}
}

// listOf is the schema of a list of items of a kind.
func listOf(kind, doc string, item schemaOf) schemaOf {
	return answerOf(kind+"List", doc, []string{"metadata", "items"}, schemaOf{
		"metadata": ref("ListMeta"), "items": schemaOf{"type": "array", "items": item},
	})
}

// answerOf is the schema of an answer of a kind.
func answerOf(kind, doc string, required []string, properties schemaOf) schemaOf {
	return members(doc, append([]string{"kind", "apiVersion"}, required...), merge(properties, schemaOf{
		"kind":       schemaOf{"type": "string", "enum": []string{kind}},
		"apiVersion": schemaOf{"type": "string", "enum": []string{"sqlstore/v1"}},
	}))
}

// textOf is a member with any bytes, and the one with their base64.
func textOf(name, doc string) schemaOf {
	return schemaOf{name: described(stringSchema, doc), name + "Base64": schemaOf{
		"type": "string", "format": "byte",
		"description": "The same, if it is not UTF-8; " + name + " then contains U+FFFD.",
	}}
}

func merge(all ...schemaOf) schemaOf {
	out := schemaOf{}
	for _, s := range all {
		maps.Copy(out, s)
	}
	return out
}
