package restapi

import "maps"

// schemaOf is a part of the description, in OpenAPI 3.0's JSON Schema.
type schemaOf map[string]any

func ref(name string) schemaOf { return schemaOf{"$ref": "#/components/schemas/" + name} }

var (
	anySchema     = schemaOf{"nullable": true}
	stringSchema  = schemaOf{"type": "string"}
	booleanSchema = schemaOf{"type": "boolean"}
	numberSchema  = schemaOf{"type": "integer", "format": "int64", "minimum": 0}
	versionSchema = schemaOf{"type": "string", "pattern": "^[0-9]*$"}

	timeSchema = schemaOf{"type": "string", "format": "date-time"}

	itemSchema    = ref("Object")
	historySchema = ref("ObjectHistory")
	listSchema    = ref("ObjectList")
	treeSchema    = ref("ObjectTree")
	eventSchema   = ref("WatchEvent")
	statusSchema  = ref("Status")
	putSchema     = ref("ObjectPut")
	deleteSchema  = ref("DeleteOptions")
	leasesSchema  = ref("LeaseList")
	leaseSchema   = ref("Lease")
	alarmsSchema  = ref("AlarmList")
	usersSchema   = ref("UserList")
	userSchema    = ref("User")
	rolesSchema   = ref("RoleList")
	roleSchema    = ref("Role")
	authSchema    = ref("AuthStatus")
)

func members(doc string, required []string, properties schemaOf) schemaOf {
	s := schemaOf{"type": "object", "description": doc, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func described(s schemaOf, doc string) schemaOf {
	out := schemaOf{"description": doc}
	for k, v := range s {
		out[k] = v
	}
	return out
}

// schemas are the schemas of requests and answers.
func schemas() schemaOf {
	value := described(anySchema, "The value, if it is JSON, byte for byte (a watch replaces line breaks with spaces).")
	encoded := schemaOf{"type": "string", "format": "byte", "description": "The value, if it is not JSON."}
	metadata := schemaOf{
		"key": described(stringSchema, "The full key."),
		"keyBase64": schemaOf{
			"type": "string", "format": "byte",
			"description": "The key if it is not UTF-8; key then contains U+FFFD.",
		},
		"namespace":       described(stringSchema, "The key up to and including its last slash."),
		"name":            described(stringSchema, "The part of the key after its last slash."),
		"resourceVersion": described(versionSchema, "The version of the write that produced this state."),
		"createRevision":  described(versionSchema, "The version of the write that created the object."),
		"lease": described(leaseIDSchema, "The lease that the key is attached to; absent if there is none. A PUT "+
			"ignores it: an update leaves it as it is."),
	}
	required := []string{"key", "namespace", "name", "resourceVersion", "createRevision"}
	all := schemaOf{
		"ObjectMeta": members("The metadata of an object.", required, metadata),
		"Object": members("An object. It has value or valueBase64, except in the DELETED event of a state that has "+
			"been compacted.", []string{"metadata"},
			schemaOf{"metadata": ref("ObjectMeta"), "value": value, "valueBase64": encoded}),
		"ObjectPut": members("An object to put, with either value or valueBase64. Members of metadata other than "+
			"resourceVersion must match the path.", nil,
			schemaOf{"metadata": members("", nil, metadata), "value": value, "valueBase64": encoded}),
		"DeleteOptions": members("What to delete.", nil, schemaOf{
			"preconditions": members("", nil, schemaOf{"resourceVersion": described(versionSchema,
				"The version that the object must have.")}),
		}),
		"ListMeta": members("The metadata of a list.", []string{"resourceVersion"}, schemaOf{
			"resourceVersion": described(versionSchema, "The version of all items."),
			"continue": described(stringSchema,
				"The token for the next chunk; absent after the last one."),
			"remainingItemCount": described(numberSchema, "How many items follow in the next chunks."),
		}),
		"ObjectList": members("A chunk of objects, in byte order of their keys.",
			[]string{"kind", "apiVersion", "metadata", "items"}, schemaOf{
				"kind":       schemaOf{"type": "string", "enum": []string{"ObjectList"}},
				"apiVersion": schemaOf{"type": "string", "enum": []string{"sqlstore/v1"}},
				"metadata":   ref("ListMeta"), "items": schemaOf{"type": "array", "items": ref("Object")},
			}),
		"ObjectTree": members("One level of the tree of keys, in byte order.",
			[]string{"kind", "apiVersion", "metadata", "items"}, schemaOf{
				"kind":       schemaOf{"type": "string", "enum": []string{"ObjectTree"}},
				"apiVersion": schemaOf{"type": "string", "enum": []string{"sqlstore/v1"}},
				"metadata": members("", []string{"resourceVersion", "keys"}, schemaOf{
					"resourceVersion": described(versionSchema, "The version of all items."),
					"keys":            described(numberSchema, "How many keys begin with the prefix."),
					"continue":        described(stringSchema, "The token for the next chunk; absent after the last."),
				}),
				"items": schemaOf{"type": "array", "items": schemaOf{
					"anyOf": []schemaOf{ref("TreeKey"), ref("TreePrefix")},
				}},
			}),
		"TreeKey": members("A key.", []string{"metadata"}, schemaOf{"metadata": ref("ObjectMeta")}),
		"TreePrefix": members("All keys with a longer prefix.", []string{"prefix", "keys"}, schemaOf{
			"prefix": described(stringSchema, "The prefix, up to and including a slash."),
			"prefixBase64": schemaOf{
				"type": "string", "format": "byte",
				"description": "The prefix if it is not UTF-8; prefix then contains U+FFFD.",
			},
			"keys": described(numberSchema, "How many keys begin with it."),
		}),
		"ObjectHistory": members("The versions of an object, the oldest first.",
			[]string{"kind", "apiVersion", "metadata", "items"}, schemaOf{
				"kind":       schemaOf{"type": "string", "enum": []string{"ObjectHistory"}},
				"apiVersion": schemaOf{"type": "string", "enum": []string{"sqlstore/v1"}},
				"metadata": members("", []string{"resourceVersion", "currentResourceVersion"}, schemaOf{
					"resourceVersion": described(versionSchema,
						"Up to it, all versions are here. To continue, pass it."),
					"currentResourceVersion": described(versionSchema, "If it is greater, more versions may follow."),
				}),
				"items": schemaOf{"type": "array", "items": ref("ObjectVersion")},
			}),
		"ObjectVersion": members("A version of an object: it has value or valueBase64, unless it is deleted.",
			[]string{"metadata"}, schemaOf{
				"metadata": ref("ObjectMeta"), "value": value, "valueBase64": encoded,
				"committedAt": described(timeSchema, "When it was committed; absent if that is not known."),
				"deleted":     described(booleanSchema, "Whether this version is the object's deletion."),
			}),
		"Bookmark": members("The progress of a watch.", []string{"metadata"}, schemaOf{
			"metadata": members("", []string{"resourceVersion"}, schemaOf{
				"resourceVersion": described(versionSchema, "Everything up to it has been sent."),
				"annotations": schemaOf{
					"type": "object", "additionalProperties": stringSchema,
					"description": "k8s.io/initial-events-end says that the state is complete.",
				},
			}),
		}),
		"WatchEvent": members("A line of a watch.", []string{"type", "object"}, schemaOf{
			"type": schemaOf{
				"type": "string", "enum": []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"},
			},
			"object":   schemaOf{"anyOf": []schemaOf{ref("Object"), ref("Bookmark"), ref("Status")}},
			"previous": described(ref("Object"), "The version that a MODIFIED supersedes, if the watch asks for it."),
		}),
		"Status": members("Kubernetes' Status: an error, or the confirmation of a deletion.",
			[]string{"kind", "apiVersion", "metadata", "status", "code"}, schemaOf{
				"kind":       schemaOf{"type": "string", "enum": []string{"Status"}},
				"apiVersion": schemaOf{"type": "string", "enum": []string{"v1"}},
				"metadata": members("", nil, schemaOf{
					"resourceVersion": described(versionSchema, "Of a deletion."),
					"continue":        described(stringSchema, "Continues an expired list at the latest version."),
				}),
				"status":  schemaOf{"type": "string", "enum": []string{"Success", "Failure"}},
				"message": stringSchema, "reason": stringSchema, "code": schemaOf{"type": "integer"},
				"details": members("", nil, schemaOf{
					"name": stringSchema, "retryAfterSeconds": schemaOf{"type": "integer"},
					"causes": schemaOf{"type": "array", "items": members("", nil,
						schemaOf{"reason": stringSchema, "message": stringSchema})},
				}),
			}),
	}
	maps.Copy(all, serverSchemas())
	return all
}
