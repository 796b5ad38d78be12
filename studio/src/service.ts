// The page at / of dragoman serve.
import { mount } from "svelte";
import "./parts.css";
import Service from "./service/Service.svelte";

mount(Service, { target: document.querySelector("main")! });
