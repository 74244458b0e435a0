"""The page at /v2/docs: one file that loads nothing from other servers, and renders the description."""

# ruff: noqa: E501

from typing import Final

PAGE: Final = rb"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Millstream HTTP gateway</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{color-scheme:light dark;--line:#8883;--soft:#8881;--get:#2a7de1;--post:#2e9e5b;--put:#c07a12;--delete:#c8423b}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:62rem;padding:1.5rem}
h1{margin:.2em 0}h2{border-bottom:1px solid var(--line);margin-top:2em;padding-bottom:.2em}
details{border:1px solid var(--line);border-radius:6px;margin:.5em 0}
summary{cursor:pointer;padding:.5em .8em;display:flex;gap:.8em;align-items:baseline;flex-wrap:wrap}
details>div{padding:0 .9em .9em;border-top:1px solid var(--line)}
code,pre{font:13px/1.45 ui-monospace,monospace}pre{background:var(--soft);padding:.7em;overflow:auto;border-radius:6px}
.method{font-weight:700;color:#fff;border-radius:4px;padding:.05em .5em;font-size:.8em;min-width:3.6em;text-align:center}
.get{background:var(--get)}.post{background:var(--post)}.put{background:var(--put)}.delete{background:var(--delete)}
table{border-collapse:collapse;width:100%;margin:.4em 0}td,th{border-bottom:1px solid var(--line);padding:.25em .5em;
text-align:left;vertical-align:top}th{font-weight:600}.mute{opacity:.7}.curl{white-space:pre-wrap;word-break:break-all;margin:0}form{display:grid;gap:.4em;margin-top:.6em}
input,textarea,button{font:inherit;padding:.3em .5em}textarea{min-height:5em;font-family:ui-monospace,monospace}
label{display:grid;grid-template-columns:11rem 1fr;gap:.5em;align-items:center}#filter{width:100%;box-sizing:border-box}
</style></head><body>
<h1 id="title">&hellip;</h1><p id="about"></p>
<p><a href="openapi.json">openapi.json</a> &middot; <label style="display:inline">Authorization:
<input id="authorization" placeholder="Basic ... or Bearer ..." size="30"></label></p>
<input id="filter" placeholder="find an operation"><main id="main"></main>
<script>
"use strict";
const make=(tag,props={},...children)=>{const e=Object.assign(document.createElement(tag),props);e.append(...children);return e};
const code=text=>make("code",{textContent:text});
let spec;
const resolve=schema=>schema&&schema.$ref?spec.components[schema.$ref.split("/")[2]][schema.$ref.split("/")[3]]:schema;
function shape(schema,depth=0){
  if(!schema)return"";
  const name=schema.$ref?schema.$ref.split("/").pop():"";schema=resolve(schema);
  if(schema.anyOf)return schema.anyOf.map(each=>shape(each,depth)).join(" | ");
  if(schema.enum)return schema.enum.map(each=>JSON.stringify(each)).join(" | ");
  if(schema.type==="array")return shape(schema.items,depth)+"[]";
  if(schema.properties){
    if(depth>2)return name||"object";
    const pad="  ".repeat(depth+1);
    return"{\n"+Object.entries(schema.properties).map(([key,value])=>{
      const note=value.description?"   // "+value.description:"";
      return pad+key+((schema.required||[]).includes(key)?"":"?")+": "+shape(value,depth+1)+note}).join("\n")
      +"\n"+"  ".repeat(depth)+"}"}
  if(schema.additionalProperties&&schema.additionalProperties!==true)return"{[name]: "+shape(schema.additionalProperties,depth+1)+"}";
  return schema.type?(schema.format?schema.type+" ("+schema.format+")":schema.type):"any";
}
const quoted=text=>"'"+text.replaceAll("'","'\\''")+"'";
function curlLine(url,{method,headers,body}){
  const words=["curl"];
  if(method!=="GET")words.push("-X "+method);
  for(const[name,value]of Object.entries(headers))words.push("-H "+quoted(name+": "+value));
  if(body!==undefined)words.push("--data-binary "+quoted(body));
  return[...words,quoted(url)].join(" ");
}
function indented(text,type){
  if(!/json$/.test(type.split(";")[0])||/ndjson/.test(type))return text;
  try{return JSON.stringify(JSON.parse(text),null,2)}catch{return text}
}
function tryIt(method,path,operation){
  const form=make("form"),fields={};
  for(const parameter of operation.parameters||[]){
    const input=make("input",{placeholder:parameter.required?"":"optional"});
    fields[parameter.in+":"+parameter.name]=input;
    form.append(make("label",{},code(parameter.name),input))}
  let body,type;
  if(operation.requestBody){
    const types=Object.keys(operation.requestBody.content);
    type=make("input",{value:types[0]==="*/*"?"text/plain":types[0]});
    body=make("textarea");
    form.append(make("label",{},"Content-Type",type),make("label",{},"Body",body))}
  const out=make("pre",{hidden:true}),stop=make("button",{type:"button",textContent:"Stop",hidden:true});
  const line=make("pre",{className:"curl"}),copy=make("button",{type:"button",textContent:"Copy"});
  const request=()=>{
    let target=path;const query=new URLSearchParams(),headers={};
    for(const[key,input]of Object.entries(fields)){
      const at=key.indexOf(":"),place=key.slice(0,at),name=key.slice(at+1);
      if(place==="path")target=target.replace("{"+name+"}",input.value?encodeURIComponent(input.value):"{"+name+"}");
      else if(input.value){if(place==="query")query.append(name,input.value);else headers[name]=input.value}}
    const who=document.getElementById("authorization").value;if(who)headers.Authorization=who;
    const options={method:method.toUpperCase(),headers};
    if(body&&(body.value||operation.requestBody.required)){options.body=body.value;headers["Content-Type"]=type.value}
    if([...query].length)target+="?"+query;
    return{url:location.origin+location.pathname.replace(/\/v2\/docs.*$/,"")+target,options}};
  const show=()=>{const{url,options}=request();line.textContent=curlLine(url,options)};
  copy.onclick=()=>{const range=document.createRange();range.selectNodeContents(line);
    const chosen=getSelection();chosen.removeAllRanges();chosen.addRange(range);document.execCommand("copy")};
  form.append(make("div",{},make("button",{textContent:"Send"})," ",stop),line,make("div",{},copy));
  form.oninput=show;document.getElementById("authorization").addEventListener("input",show);show();
  form.onsubmit=async event=>{
    event.preventDefault();
    const{url,options}=request(),abort=new AbortController();
    options.signal=abort.signal;stop.onclick=()=>abort.abort();
    out.hidden=stop.hidden=false;out.textContent="";
    try{
      const response=await fetch(url,options);
      const head=response.status+" "+response.statusText+"\n"+[...response.headers].map(h=>h.join(": ")).join("\n")+"\n\n";
      const reader=response.body.getReader(),decoder=new TextDecoder();let text="";
      for(;;){const{done,value}=await reader.read();if(done)break;
        text=(text+decoder.decode(value,{stream:true})).slice(-200000);out.textContent=head+text}
      out.textContent=head+indented(text,response.headers.get("Content-Type")||"")
    }catch(error){out.textContent+="\n"+error}
    stop.hidden=true};
  return make("div",{},form,out);
}
function show(method,path,operation){
  const inside=make("div"),responses=make("table",{},make("tr",{},make("th",{textContent:"Status"}),make("th",{textContent:"Meaning"})));
  const details=make("details",{},make("summary",{},make("span",{className:"method "+method,textContent:method.toUpperCase()}),
    code(path),make("span",{className:"mute",textContent:operation.summary})),inside);
  details.dataset.text=(method+" "+path+" "+operation.summary).toLowerCase();
  details.ontoggle=()=>{
    if(!details.open||inside.childElementCount)return;
    inside.append(make("p",{textContent:operation.description||""}));
    if(operation.parameters){
      const table=make("table",{},make("tr",{},...["Parameter","In","Type",""].map(t=>make("th",{textContent:t}))));
      for(const p of operation.parameters)table.append(make("tr",{},make("td",{},code(p.name)),make("td",{textContent:p.in}),
        make("td",{},code(shape(p.schema))),make("td",{textContent:p.description||""})));
      inside.append(table)}
    if(operation.requestBody)for(const[type,content]of Object.entries(operation.requestBody.content))
      inside.append(make("h4",{},"Body: ",code(type)),make("p",{textContent:operation.requestBody.description||""}),make("pre",{textContent:shape(content.schema)}));
    for(const[status,ref]of Object.entries(operation.responses)){
      const response=resolve(ref);
      const cell=make("td",{},response.description);
      if(status<300)for(const[type,content]of Object.entries(response.content||{}))cell.append(make("div",{},code(type)),make("pre",{textContent:shape(content.schema)}));
      for(const[name,header]of Object.entries(response.headers||{}))cell.append(make("div",{className:"mute"},code(name)," "+header.description));
      responses.append(make("tr",{},make("td",{},code(status)),cell))}
    inside.append(make("h4",{textContent:"Answers"}),responses);
    if(!operation.responses["101"])inside.append(make("h4",{textContent:"Try it"}),tryIt(method,path,operation));
  };
  return details;
}
fetch("openapi.json").then(response=>response.json()).then(found=>{
  spec=found;
  document.getElementById("title").textContent=spec.info.title+" "+spec.info.version;
  document.getElementById("about").textContent=spec.info.description;
  const main=document.getElementById("main");
  for(const tag of spec.tags){
    main.append(make("h2",{textContent:tag.name}));
    for(const[path,methods]of Object.entries(spec.paths))for(const[method,operation]of Object.entries(methods))
      if(operation.tags.includes(tag.name))main.append(show(method,path,operation))}
  document.getElementById("filter").oninput=event=>{
    const wanted=event.target.value.toLowerCase();
    for(const each of main.querySelectorAll("details"))each.hidden=!each.dataset.text.includes(wanted)};
});
</script></body></html>
"""
